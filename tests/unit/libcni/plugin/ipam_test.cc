#include "libcni/plugin/ipam.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "libcni/common/undo.h"
#include "netlink/types/fd.h"
#include "tests/unit/libcni/stderr.h"
#include "tests/unit/surroundings.h"

using cni::Code;
using cni::Command;
using cni::Error;
using cni::Request;
using cni::Result;
using cni::Version;
using surroundings::Folder;

namespace {

// A parent's request, and an IPAM plugin "fake" that writes down what it was called with.
class Parent {
 public:
  // on_add: what the plugin does on ADD, as shell code; on_del likewise.
  explicit Parent(const std::string& on_add, const std::string& on_del = "") {
    folder_.script("fake", "echo $CNI_COMMAND >>" + folder_.file("log") + "\ncat >" +
                               folder_.file("stdin") + "\nif [ $CNI_COMMAND = ADD ]; then :; " +
                               on_add + "\nelse :; " + on_del + "\nfi");
    request.env = {
        {"PATH", "/usr/bin:/bin"}, {"CNI_COMMAND", "CHECK"}, {"CNI_PATH", folder_.path()}};
    request.path = {folder_.path()};
    request.input =
        "{ \"cniVersion\":\"1.1.0\",\n\"name\": \"n\", \"ipam\": {\"type\": \"fake\"} }\n";
    request.conf = nlohmann::json::parse(request.input);
  }

  Result add() const { return cni::ipam_add(request, "fake"); }
  Error failed_add() const {
    try {
      add();
    } catch (const Error& e) {
      return e;
    }
    return {Code::kInternal, "(it did not fail)"};
  }
  // The plugin's file has this content.
  void replace(const std::string& content) const {
    netlink::write_all(surroundings::open_for_writing(folder_.file("fake")).get(), content, "fake");
  }
  std::string log() const { return netlink::read_file(folder_.file("log")).value_or(""); }
  std::string input() const { return netlink::read_file(folder_.file("stdin")).value_or(""); }

  Request request;

 private:
  Folder folder_;
};

std::string prints(const std::string& text) { return "echo '" + text + "'"; }

}  // namespace

TEST_CASE("the IPAM plugin's type is read from the config") {
  const auto type_in = [](const char* text) {
    Request request;
    request.conf = nlohmann::json::parse(text);
    return cni::ipam_type(request);
  };
  CHECK(type_in(R"({"ipam": {"type": "host-local"}})") == "host-local");
  CHECK(type_in(R"({"ipam": {}})") == "");
  CHECK(type_in(R"({"ipam": null})") == "");
  CHECK(type_in("{}") == "");
  CHECK_THROWS_WITH_AS(type_in(R"({"ipam": {"type": 5}})"), "ipam.type: expected a string: 5",
                       Error);
  CHECK_THROWS_WITH_AS(type_in(R"({"ipam": []})"), "ipam: expected an object: []", Error);
}

TEST_CASE("an IPAM plugin gets ADD and the parent's stdin, byte for byte") {
  const Parent parent(prints(R"({"cniVersion": "1.1.0", "ips": [{"address": "10.0.0.2/8"}]})"));
  CHECK(parent.add().ips.at(0).cidr.str() == "10.0.0.2/8");
  CHECK(parent.log() == "ADD\n");
  CHECK(parent.input() == parent.request.input);
}

TEST_CASE("an IPAM result is read in the version it states, whatever the config's is") {
  CHECK(
      Parent(
          prints(R"({"cniVersion": "0.4.0", "ips": [{"version": "4", "address": "10.0.0.2/8"}]})"))
          .add()
          .ips.size() == 1);
  const Result old = Parent(prints(R"({"cniVersion": "0.2.0", "ip4": {"ip": "10.0.0.2/8",
      "routes": [{"dst": "0.0.0.0/0"}]}, "ip6": {"ip": "2001:db8::2/64"}})"))
                         .add();
  CHECK(old.ips.size() == 2);
  CHECK(old.routes.size() == 1);
}

TEST_CASE("an IPAM result without a version is of the config's version") {
  CHECK(Parent(prints(R"({"ips": [{"address": "10.0.0.2/8"}]})")).add().ips.size() == 1);
  CHECK(Parent(prints(R"({"cniVersion": "", "ips": [{"address": "10.0.0.2/8"}]})"))
            .add()
            .ips.size() == 1);
  Parent old(prints(R"({"ip4": {"ip": "10.0.0.2/8"}})"));
  old.request.version = Version::k0_2_0;
  CHECK(old.add().ips.size() == 1);
}

TEST_CASE("null from an IPAM plugin is an empty result") {
  const Parent parent(prints("null"));
  CHECK(parent.add() == Result{});
  CHECK(parent.log() == "ADD\n");
}

TEST_CASE("an IPAM plugin that refuses ADD is not called with DEL, and its error is the parent's") {
  const Parent parent(prints(R"({"code": 11, "msg": "pool is locked", "details": "d"})") +
                      "; exit 1");
  const Error e = parent.failed_add();
  CHECK(e.code() == Code::kTryAgainLater);
  CHECK(std::string(e.what()) == "pool is locked");
  CHECK(e.details() == "d");
  CHECK(parent.log() == "ADD\n");  // what it has is of an earlier ADD
}

TEST_CASE("a DEL that fails after a failed ADD does not hide ADD's error") {
  const Parent parent("echo first >&2; exit 3",
                      prints(R"({"code": 5, "msg": "second"})") + "; exit 1");
  CHECK(std::string(parent.failed_add().what()) == "plugin 'fake' failed (exit status 3): first\n");
  CHECK(parent.log() == "ADD\nDEL\n");
}

TEST_CASE("an IPAM plugin that ends without an answer is called with DEL") {
  const struct {
    const char *on_add, *msg;
  } table[] = {
      {"kill -9 $$", "plugin 'fake' failed (killed by signal 9) with no error message"},
      {"echo text; exit 1",
       "plugin 'fake' failed (exit status 1) with output that is no error object"},
  };
  for (const auto& row : table) {
    CAPTURE(row.on_add);
    const Parent parent(row.on_add);
    CHECK(std::string(parent.failed_add().what()) == row.msg);
    CHECK(parent.log() == "ADD\nDEL\n");
  }
}

TEST_CASE("an IPAM plugin whose end cannot be waited for is called with DEL") {
  const Parent parent(prints(R"({"ips": [{"address": "10.0.0.2/8"}]})"));
  auto* const before = ::signal(SIGCHLD, SIG_IGN);  // wait4(2) gives ECHILD then
  const std::string what = parent.failed_add().what();
  ::signal(SIGCHLD, before);
  CHECK(what.find("o child") != std::string::npos);
  CHECK(parent.log() == "ADD\nDEL\n");
}

TEST_CASE("an IPAM plugin that could not be run is not called with DEL") {
  const Parent parent("");
  parent.replace("no program");
  CHECK_THROWS_AS(parent.add(), netlink::Error);
  CHECK(parent.log().empty());
}

TEST_CASE("an answer that cannot be read is a failed ADD: what it reserved is released") {
  const struct {
    const char *answer, *start;
    Code code;
  } table[] = {
      {"", "IPAM plugin 'fake' printed no JSON result", Code::kDecodingFailure},
      {"text", "IPAM plugin 'fake' printed no JSON result", Code::kDecodingFailure},
      {"{} {}", "IPAM plugin 'fake' printed no JSON result", Code::kDecodingFailure},
      {"[]", "IPAM plugin 'fake' printed no JSON result", Code::kDecodingFailure},
      {R"({"cniVersion": "9.9.9"})",
       "IPAM plugin 'fake' answered with unknown cniVersion \"9.9.9\"", Code::kIncompatibleVersion},
      {R"({"ips": [{"address": "10.0.0.2"}]})",
       "result of IPAM plugin 'fake': ips[0].address: expected an address", Code::kDecodingFailure},
  };
  for (const auto& row : table) {
    CAPTURE(row.answer);
    const Parent parent(prints(row.answer));
    const Error e = parent.failed_add();
    CHECK(std::string(e.what()).starts_with(row.start));
    CHECK(e.code() == row.code);
    CHECK(parent.log() == "ADD\nDEL\n");
  }
}

TEST_CASE("an IPAM plugin that is not there is not called again") {
  const Parent parent("");
  CHECK_THROWS_WITH_AS(cni::ipam_add(parent.request, "absent"),
                       doctest::Contains("failed to find plugin \"absent\""), Error);
  CHECK(parent.log().empty());
}

TEST_CASE("the other verbs are forwarded, and their output is ignored") {
  for (const Command command : {Command::kDel, Command::kCheck, Command::kGc, Command::kStatus}) {
    const Parent parent("", prints("not JSON"));
    CHECK_NOTHROW(cni::ipam_forward(parent.request, "fake", command));
    CHECK(parent.log() == std::string(cni::str(command)) + "\n");
    CHECK(parent.input() == parent.request.input);
  }
}

TEST_CASE("a forwarded verb that fails fails as the delegate did") {
  const Parent parent("", prints(R"({"code": 50, "msg": "pool is exhausted"})") + "; exit 1");
  try {
    cni::ipam_forward(parent.request, "fake", Command::kStatus);
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(e.code() == Code::kPluginUnavailable);
    CHECK(std::string(e.what()) == "pool is exhausted");
  }
}

TEST_CASE("without an IPAM type nothing is forwarded") {
  Request request;  // no CNI_PATH: a search would fail
  CHECK_NOTHROW(cni::ipam_forward(request, "", Command::kDel));
}

TEST_CASE("what a delegate says on stderr is passed on") {
  const Parent parent("", "echo one >&2; echo two >&2");
  const StderrKept kept;
  cni::ipam_forward(parent.request, "fake", Command::kDel);
  CHECK(kept.text() == "one\ntwo\n");
}

TEST_CASE("undoing an IPAM ADD is its DEL, also after the request has gone") {
  const Parent parent("");
  {
    cni::Undo undo;
    const Request gone = parent.request;
    undo.add(cni::ReleaseAddresses{gone, "fake"});
  }
  CHECK(parent.log() == "DEL\n");
  CHECK(cni::ReleaseAddresses{parent.request, "fake"}.describe() ==
        "release the addresses by IPAM plugin 'fake'");
}
