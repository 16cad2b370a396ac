#include "libcni/plugin/suite.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <fstream>

#include "libcni/plugin/build_note.h"
#include "libcni/plugin/manual.h"
#include "libcni/plugin/single.h"
#include "tests/unit/libcni/reading.h"
#include "tests/unit/libcni/stderr.h"
#include "tests/unit/surroundings.h"

// As scripts/cmake/build_note.cmake writes it.
extern "C" __attribute__((used, aligned(4)))
const cni::BuildNote patchbay_build_note{.hash = {"0123456789abcdef0123456789abcdef"}};

using cni::Code;
using cni::Command;
using cni::Plugin;
using cni::Request;
using cni::Result;
using cni::Undo;

namespace {

bool undone = false;

struct Mark {
  void operator()() const { undone = true; }
  std::string describe() const { return "mark"; }
};

Result add(const Request& request, Undo& undo) {
  undone = false;
  undo.add(Mark{});
  if (request.network == "refused") throw netlink::Error("add 'it'", EPERM);
  if (request.network == "later") throw netlink::Error("add 'it'", EAGAIN);
  if (request.network == "broken") throw std::out_of_range("somewhere");
  const auto one = [](const char* cidr) {
    return cni::Address{.cidr = *cni::Cidr::parse(cidr), .gateway = {}, .interface = 0};
  };
  return {.interfaces = {{.name = "eth0", .sandbox = "/x"}},
          .ips = {one("10.0.0.1/8"), one("10.0.0.2/8")}};
}
void del(const Request& request) {
  if (request.network == "refused") throw cni::Error(Code::kTryAgainLater, "later", "details");
}

constexpr cni::Manual kManual{.purpose = "gives addresses", .facts = {cni::Fact::kIpam}};
constexpr Plugin kFake{.name = "fake", .verbs = {.add = add, .del = del}, .manual = &kManual};
constexpr Plugin kOther{.name = "other"};
constexpr Plugin kMoreFake{.name = "more-fake"};
constexpr const Plugin* kThree[] = {&kFake, &kOther, &kMoreFake};

Request request_for(Command command, const std::string& network,
                    cni::Version version = cni::kNewest) {
  Request request;
  request.command = command;
  request.network = network;
  request.version = version;
  return request;
}

cni::Error error_of(Command command, const std::string& network) {
  try {
    cni::call(kFake, request_for(command, network));
  } catch (const cni::Error& e) {
    return e;
  }
  FAIL("it succeeded");
  return {Code::kInternal, ""};
}

}  // namespace

TEST_CASE("a delegate that is called gives its result, and what it did is its caller's to undo") {
  CHECK(cni::call(kFake, request_for(Command::kAdd, "net")).ips.size() == 2);
  CHECK_FALSE(undone);
  CHECK(cni::call(kFake, request_for(Command::kDel, "net")).ips.empty());
  CHECK_NOTHROW(cni::call(kOther, request_for(Command::kDel, "net")));
}

TEST_CASE("a result of old says no more than it would if it were printed") {
  const auto old = cni::call(kFake, request_for(Command::kAdd, "net", cni::Version::k0_2_0));
  CHECK(old.ips.size() == 1);
  CHECK(old.interfaces.empty());
}

TEST_CASE("a delegate's failure is the error that it would have printed, and it is undone") {
  CHECK(error_of(Command::kAdd, "refused").code() == Code::kInternal);
  CHECK(undone);
  CHECK(error_of(Command::kAdd, "refused").what() ==
        std::string("add 'it': operation not permitted"));
  CHECK(error_of(Command::kAdd, "later").code() == Code::kTryAgainLater);
  CHECK(error_of(Command::kAdd, "broken").what() == std::string("somewhere"));
  CHECK(error_of(Command::kDel, "refused").code() == Code::kTryAgainLater);
  CHECK(error_of(Command::kDel, "refused").details() == "details");
}

TEST_CASE("an executable is the plugin whose name it is called by, or that is its first argument") {
  const auto status = [](std::vector<std::string> words) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    return cni::suite_main(kThree, {}, static_cast<int>(words.size()), argv.data());
  };
  const auto saying = [&](const std::vector<std::string>& words) {
    const StderrKept kept;
    const int got = status(words);
    return cni::cat(got, " ", kept.text());
  };
  const std::string own = cni::cat("0 CNI other plugin v1.9.1+patchbay.", cni::build_version());
  CHECK(saying({"/opt/cni/bin/other"}).starts_with(own + "\n"));
  CHECK(saying({"/opt/cni/bin/patchbay", "fake"}).starts_with("0 CNI fake plugin"));
  CHECK(saying({"/run/other.real"}).starts_with("0 CNI other plugin"));
  CHECK(saying({"/opt/cni/bin/cnv-other"}).starts_with("0 CNI other plugin"));
  CHECK(saying({"/opt/cni/bin/buildkit-cni-fake.real"}).starts_with("0 CNI fake plugin"));
  CHECK(saying({"less-more-fake"}).starts_with("0 CNI more-fake plugin"));
  CHECK(saying({"another"}).starts_with("0 CNI plugins plugin v"));
  CHECK(saying({"other-v2"}).starts_with("0 CNI plugins plugin v"));
  CHECK(saying({"patchbay"}).starts_with("0 CNI plugins plugin v"));
  CHECK(saying({"patchbay", "other-v2"}).find("fake other") != std::string::npos);
  CHECK(saying({"patchbay", "other-v2"}).starts_with("2 'other-v2' is no plugin"));
  CHECK(saying({"patchbay", "brigde"}).starts_with("2 'brigde' is no plugin"));
}

TEST_CASE(
    "a plugin of the suite has the version and the page of patchbay unless it states others") {
  static constexpr Plugin kGuest{
      .name = "guest", .version = "v7.1", .documentation = "https://example.com/guest"};
  static constexpr const Plugin* kBoth[] = {&kFake, &kGuest};
  char name[] = "patchbay";
  char* argv[] = {name, nullptr};
  {
    const StderrKept kept;
    cni::suite_main(kBoth, {}, 1, argv);
  }
  CHECK(cni::version_text(kFake).starts_with(
      cni::cat("CNI fake plugin patchbay ", cni::build_text(), "\nCNI protocol versions")));
  CHECK(cni::help(kFake).ends_with(
      "\nDocumentation: plugins/fake/README.md in the sources of patchbay\n"));
  CHECK(cni::answer_to(kFake, "--schema").find(cni::cat(", patchbay ", cni::build_version())) !=
        std::string::npos);
  CHECK(cni::version_of(kFake) == cni::build_version());
  CHECK(cni::about(kGuest).starts_with("CNI guest plugin v7.1\n"));
  CHECK(cni::help(kGuest).ends_with("\nDocumentation: https://example.com/guest\n"));
}

TEST_CASE(
    "a delegate is in this executable only where the file that was found is this executable") {
  char name[] = "patchbay";
  char* argv[] = {name, nullptr};
  {
    const StderrKept kept;
    cni::suite_main(kThree, {}, 1, argv);
  }
  CHECK(cni::linked_plugin("fake", "/proc/self/exe") == &kFake);
  CHECK(cni::linked_plugin("cnv-fake", "/proc/self/exe") == &kFake);
  CHECK(cni::linked_plugin("other", "/proc/self/exe") == nullptr);
  CHECK(cni::linked_plugin("fake", "/bin/sh") == nullptr);
  CHECK(cni::linked_plugin("fake", "/nowhere") == nullptr);
  CHECK(cni::linked_plugin("unknown", "/proc/self/exe") == nullptr);
}

TEST_CASE("an executable with the note of this build in its first page is of this build") {
  char name[] = "patchbay";
  char* argv[] = {name, nullptr};
  {
    const StderrKept kept;
    cni::suite_main(kThree, {}, 1, argv);
  }
  const surroundings::Folder folder;
  const auto plugin_at = [&](std::size_t offset, const cni::BuildNote& note) {
    std::string content(offset, 'x');
    content.append(reinterpret_cast<const char*>(&note), sizeof note);
    std::ofstream(folder.file("fake"), std::ios::binary) << content;
    return cni::linked_plugin("fake", folder.file("fake"));
  };
  CHECK(plugin_at(600, patchbay_build_note) == &kFake);
  CHECK(plugin_at(0, patchbay_build_note) == &kFake);
  CHECK(plugin_at(4096 - sizeof patchbay_build_note, patchbay_build_note) == &kFake);
  CHECK(plugin_at(4096, patchbay_build_note) == nullptr);
  cni::BuildNote other = patchbay_build_note;
  other.hash[0] = '1';
  CHECK(plugin_at(600, other) == nullptr);
}

TEST_CASE("an executable of one plugin is that by any name, and knows the names of the others") {
  static constexpr const Plugin* kPlugins[] = {&kOther, &kFake};
  static constexpr std::string_view kIpam[] = {"fake", "lease"};
  static constexpr std::string_view kNoIpam[] = {"other", "vlan"};
  char name[] = "/x/more-fake";
  char* argv[] = {name, nullptr};
  {
    const StderrKept kept;
    CHECK(cni::single_main({kPlugins, kIpam, kNoIpam}, 1, argv) == 0);
    CHECK(kept.text().starts_with("CNI other plugin v"));
  }
  CHECK(cni::linked_plugin("fake", "/proc/self/exe") == &kFake);
  CHECK(cni::linked_plugin("lease", "/proc/self/exe") == nullptr);
  CHECK_NOTHROW(cni::require_ipam("lease", "/bin/sh"));
  CHECK_NOTHROW(cni::require_ipam("x-vlan", "/bin/sh"));
  CHECK_THROWS_WITH_AS(cni::require_ipam("vlan", "/bin/sh"),
                       "ipam.type: 'vlan' is not an IPAM plugin", cni::Error);
  CHECK_THROWS_WITH_AS(cni::require_ipam("other.real", "/bin/sh"),
                       "ipam.type: 'other' is not an IPAM plugin", cni::Error);
  CHECK(cni::calls_no_plugin("lease"));
  CHECK(cni::calls_no_plugin("fake"));
  CHECK_FALSE(cni::calls_no_plugin("x-fake"));
  CHECK_FALSE(cni::calls_no_plugin("vlan"));
}
