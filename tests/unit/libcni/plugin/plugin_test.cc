#include "libcni/plugin/plugin.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/unit/libcni/stderr.h"
#include "tests/unit/surroundings.h"

using cni::Code;
using cni::Env;
using cni::Error;
using cni::Plugin;
using cni::Request;
using cni::Result;
using cni::Undo;
using netlink::Fd;
using surroundings::content_of;
using surroundings::file_with;

namespace {

std::string called;  // what the plugin of a test did

struct Mark {
  void operator()() const { called += "undone "; }
  std::string describe() const { return "mark"; }
};

Result add(const Request&, Undo& undo) {
  called += "ADD ";
  undo.add(Mark{});
  return {.interfaces = {{.name = "eth0", .sandbox = "/x"}}};
}
void del(const Request&) { called += "DEL "; }
void check(const Request&) { called += "CHECK "; }
void gc(const Request&, cni::Collect&) { called += "GC "; }
void status(const Request&) { called += "STATUS "; }

constexpr Plugin kFake{
    .name = "fake", .verbs = {.add = add, .del = del, .check = check, .gc = gc, .status = status}};
constexpr const char* kConf = R"({"cniVersion": "1.1.0", "name": "n", "type": "fake"})";
char program[] = "fake";
char* no_arguments[] = {program, nullptr};

Env env_for(const std::string& command) {
  return {{"CNI_COMMAND", command},
          {"CNI_CONTAINERID", "id"},
          {"CNI_NETNS", "/nowhere/net"},
          {"CNI_IFNAME", "eth0"},
          {"CNI_PATH", "/nowhere"}};
}

struct Ran {
  int status = 0;
  std::string out;
};

Ran ran(const Plugin& plugin, const Env& env, const std::string& input = kConf) {
  called.clear();
  const Fd in = file_with(input);
  const Fd out = file_with("");
  const int status = cni::run(plugin, {.env = env, .in = in.get(), .out = out.get()});
  return {status, content_of(out)};
}

int ran_with_stdout(const Plugin& plugin, const Fd& out, const std::string& input = kConf) {
  called.clear();
  const Fd in = file_with(input);
  return cni::run(plugin, {.env = env_for("ADD"), .in = in.get(), .out = out.get()});
}

struct Process {
  int status = 0;
  std::string out, err;
};

// fn in a process of its own, with these as its standard streams; an empty out is a closed one.
Process in_process(const std::string& input, const std::function<int()>& fn,
                   bool close_stdout = false) {
  const Fd in = file_with(input);
  const Fd out = file_with("");
  const Fd err = file_with("");
  std::fflush(stdout);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(in.get(), 0);
    ::dup2(out.get(), 1);
    ::dup2(err.get(), 2);
    if (close_stdout) ::close(1);
    const int status = fn();
    std::fflush(stdout);
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content_of(out), content_of(err)};
}

void set_environment(const Env& env) {
  ::clearenv();
  for (const auto& [key, value] : env) ::setenv(key.c_str(), value.c_str(), 1);
}

}  // namespace

TEST_CASE("each verb calls its one function and prints nothing but ADD's result") {
  const char* const conf =
      R"({"cniVersion": "1.1.0", "name": "n", "type": "fake", "cni.dev/valid-attachments": []})";
  for (const char* command : {"DEL", "CHECK", "GC", "STATUS"}) {
    CAPTURE(command);
    const Ran got = ran(kFake, env_for(command), conf);
    CHECK(got.status == 0);
    CHECK(got.out.empty());
    CHECK(called == std::string(command) + " ");
  }
}

TEST_CASE("ADD prints its result with four spaces and no newline at the end, and is kept") {
  const Ran got = ran(kFake, env_for("ADD"));
  CHECK(got.status == 0);
  CHECK(called == "ADD ");
  CHECK(got.out == R"({
    "cniVersion": "1.1.0",
    "interfaces": [
        {
            "name": "eth0",
            "sandbox": "/x"
        }
    ]
})");
}

TEST_CASE("ADD prints its result in the config's version") {
  const Ran got = ran(kFake, env_for("ADD"), R"({"cniVersion": "0.3.1", "name": "n"})");
  CHECK(got.status == 0);
  CHECK(got.out.find(R"("cniVersion": "0.3.1")") != std::string::npos);
  CHECK(got.out.find(R"("dns": {})") != std::string::npos);
}

TEST_CASE("ADD is undone when the config's version cannot carry its result") {
  const Ran got = ran(kFake, env_for("ADD"), R"({"cniVersion": "0.2.0", "name": "n"})");
  CHECK(got.status == 1);
  CHECK(called == "ADD undone ");
  CHECK(got.out.find("cannot convert: no valid IP addresses") != std::string::npos);
}

TEST_CASE("ADD is undone when it throws, before the error is printed") {
  const Plugin plugin{.name = "fake", .verbs = {.add = [](const Request&, Undo& undo) -> Result {
                                        undo.add(Mark{});
                                        throw Error(Code::kTryAgainLater, "locked", "by 7");
                                      }}};
  const Ran got = ran(plugin, env_for("ADD"));
  CHECK(got.status == 1);
  CHECK(called == "undone ");
  CHECK(got.out == R"({
    "cniVersion": "1.1.0",
    "code": 11,
    "msg": "locked",
    "details": "by 7"
})");
}

TEST_CASE("what is no CNI error becomes code 999 without details") {
  const Plugin plugin{
      .name = "fake",
      .verbs = {.add = [](const Request&, Undo&) -> Result { throw std::bad_alloc(); },
                .del = [](const Request&) { throw netlink::Error("remove 'eth0'", 1); },
                .check = [](const Request&) { throw std::runtime_error("odd \xff byte"); }}};
  CHECK(ran(plugin, env_for("DEL")).out == R"({
    "cniVersion": "1.1.0",
    "code": 999,
    "msg": "remove 'eth0': operation not permitted"
})");
  CHECK(ran(plugin, env_for("ADD")).out.find("\"code\": 999") != std::string::npos);
  const Ran odd = ran(plugin, env_for("CHECK"));
  CHECK(odd.status == 1);
  CHECK(odd.out.find("odd \xef\xbf\xbd byte") != std::string::npos);
}

TEST_CASE("an error object carries the config's version, or the newest where there is none") {
  const Ran old = ran(kFake, env_for("ADD"), R"({"cniVersion": "0.4.0", "name": "-"})");
  CHECK(old.status == 1);
  CHECK(old.out == R"({
    "cniVersion": "0.4.0",
    "code": 7,
    "msg": "invalid characters found in network name",
    "details": "-"
})");
  CHECK(ran(kFake, env_for("ADD"), "")
            .out.starts_with("{\n    \"cniVersion\": \"1.1.0\",\n    \"code\": 6,"));
  CHECK(ran(kFake, {{"CNI_COMMAND", "ADD"}})
            .out.starts_with("{\n    \"cniVersion\": \"1.1.0\",\n    \"code\": 4,"));
  CHECK(ran(kFake, env_for("ADD"), R"({"cniVersion": "9.9.9", "name": "n"})")
            .out.starts_with("{\n    \"cniVersion\": \"1.1.0\",\n    \"code\": 1,"));
  CHECK(called.empty());
}

TEST_CASE("ADD is undone when its result meets a full disk") {
  const Fd full = surroundings::open_for_writing("/dev/full");
  const StderrKept kept;
  CHECK(ran_with_stdout(kFake, full) == 1);
  CHECK(called == "ADD undone ");
  CHECK(kept.text() == "write 'stdout': no space left on device\n");
}

TEST_CASE("ADD is undone when its result meets a pipe that nobody reads") {
  auto [reader, writer] = surroundings::make_pipe();
  reader.reset();
  const StderrKept kept;
  CHECK(ran_with_stdout(kFake, writer) == 1);
  CHECK(called == "ADD undone ");
  CHECK(kept.text() == "write 'stdout': broken pipe\n");
}

TEST_CASE("VERSION prints one line and needs neither stdin nor a variable") {
  called.clear();
  const Fd out = file_with("");
  CHECK(cni::run(kFake, {.env = {{"CNI_COMMAND", "VERSION"}}, .in = -1, .out = out.get()}) == 0);
  CHECK(
      content_of(out) ==
      R"({"cniVersion":"1.1.0","supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]})"
      "\n");
  CHECK(called.empty());
}

TEST_CASE("a verb that a plugin leaves out is checked as ever, then succeeds") {
  const Plugin bare{.name = "bare"};
  for (const char* command : {"ADD", "DEL", "CHECK", "GC", "STATUS"}) {
    CAPTURE(command);
    const Ran got = ran(bare, env_for(command));
    CHECK(got.status == 0);
    CHECK(got.out.empty());
    CHECK(ran(bare, env_for(command), "{}").status == 1);
  }
}

TEST_CASE("REPAIR answers with what was wrong and the result, and is announced to those who ask") {
  Plugin plugin = kFake;
  CHECK(ran(plugin, env_for("REPAIR")).status == 1);  // it has no such verb
  CHECK(called.empty());
  plugin.verbs.repair = [](const Request&, cni::Repair& repair) {
    repair.part([] { throw Error(Code::kInternal, "no port"); }, [] { called += "mended "; });
    return Result{.interfaces = {{.name = "eth0", .sandbox = "/x"}}};
  };
  const Ran got = ran(plugin, env_for("REPAIR"));
  CHECK(got.status == 0);
  CHECK(called == "mended ");
  CHECK(got.out.find("\"found\": [\n        \"no port\"\n    ]") != std::string::npos);
  CHECK(got.out.find("\"sandbox\": \"/x\"") != std::string::npos);
  const char* const look =
      R"({"cniVersion": "1.1.0", "name": "n", "type": "fake", "patchbay/onlyLook": true})";
  CHECK(ran(plugin, env_for("REPAIR"), look).status == 0);
  CHECK(called.empty());
  CHECK(ran(plugin, env_for("REPAIR"), R"({"cniVersion": "0.3.1", "name": "n"})").status == 1);

  const auto announces = [](const Plugin& one, const Env& env) {
    return ran(one, env).out.find(R"("patchbay/verbs":["REPAIR","GC"])") != std::string::npos;
  };
  const Env asking{{"CNI_COMMAND", "VERSION"}, {"PATCHBAY_VERBS", "1"}};
  CHECK(announces(plugin, asking));
  CHECK_FALSE(announces(plugin, {{"CNI_COMMAND", "VERSION"}}));
  CHECK_FALSE(announces(kFake, asking));
}

TEST_CASE("the plugin's own namespace is refused before the verb runs") {
  for (const char* command : {"ADD", "DEL"}) {
    CAPTURE(command);
    Env env = env_for(command);
    env["CNI_NETNS"] = "/proc/self/ns/net";
    const Ran got = ran(kFake, env);
    CHECK(got.status == 1);
    CHECK(called.empty());
    CHECK(got.out == R"({
    "cniVersion": "1.1.0",
    "code": 8,
    "msg": "plugin's netns and netns from CNI_NETNS should not be the same",
    "details": "/proc/self/ns/net"
})");
    env["CNI_NETNS_OVERRIDE"] = "true";
    CHECK(ran(kFake, env).status == 0);
    CHECK(called == std::string(command) + " ");
  }
  Env env = env_for("CHECK");
  env["CNI_NETNS"] = "/proc/self/ns/net";
  CHECK(ran(kFake, env).status == 0);
}

TEST_CASE("without a command a plugin says on stderr what it is, in two lines") {
  for (const Env& env : {Env{}, Env{{"CNI_COMMAND", ""}}}) {
    const Process got = in_process("{}", [&env] {
      set_environment(env);
      return cni::plugin_main(kFake, 1, no_arguments);
    });
    CHECK(got.status == 0);
    CHECK(got.out.empty());
    CHECK(got.err ==
          "CNI fake plugin\nCNI protocol versions supported: 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, "
          "1.0.0, 1.1.0\n");
  }
}

TEST_CASE("an argument asks for something other than a verb, whatever the environment says") {
  const auto ran_with = [](std::vector<std::string> args) {
    return in_process("{}", [&args] {
      set_environment(env_for("ADD"));
      std::vector<char*> argv;
      for (std::string& arg : args) argv.push_back(arg.data());
      return cni::plugin_main(kFake, static_cast<int>(argv.size()), argv.data());
    });
  };
  const Process version = ran_with({"fake", "--version"});
  CHECK(version.status == 0);
  CHECK(version.out.starts_with("CNI fake plugin\n"));
  CHECK(version.err.empty());
  const Process unknown = ran_with({"fake", "--what"});
  CHECK(unknown.status == 2);
  CHECK(unknown.out.empty());
  CHECK(unknown.err ==
        "fake: unknown option '--what', expected --help, --version, --schema, --keys or "
        "--validate\n");
  CHECK(ran_with({"fake", "--help", "--help"}).status == 2);
}

TEST_CASE("a plugin is asked what it would refuse, and does nothing else") {
  const Plugin strict{.name = "strict",
                      .verbs = {.add = [](const Request&, Undo&) -> Result {
                                  std::puts("this is no add");
                                  return {};
                                },
                                .validate =
                                    [](const Request& request) {
                                      if (!request.prev_result()) {
                                        throw cni::Error(cni::Code::kInvalidConfig, "no result",
                                                         "more");
                                      }
                                    }}};
  const auto asked = [](const Plugin& plugin, const std::string& conf) {
    return in_process(conf, [&plugin] {
      set_environment({});  // of a runtime nothing is there
      std::string arguments[] = {"strict", "--validate"};
      char* argv[] = {arguments[0].data(), arguments[1].data()};
      return cni::plugin_main(plugin, 2, argv);
    });
  };
  const Process refused = asked(strict, kConf);
  CHECK(refused.status == 1);
  CHECK(nlohmann::json::parse(refused.out) ==
        nlohmann::json::parse(
            R"({"cniVersion": "1.1.0", "code": 7, "msg": "no result", "details": "more"})"));
  const Process right = asked(strict, R"({"cniVersion": "1.1.0", "name": "n", "type": "strict",
                                          "prevResult": {"cniVersion": "1.1.0"}})");
  CHECK(right.status == 0);
  CHECK(right.out.empty());
  CHECK(nlohmann::json::parse(asked(strict, "{").out)["code"] == 6);
  CHECK(asked({.name = "lax"}, kConf).status == 0);
}

TEST_CASE("what a library prints to stdout does not spoil the result") {
  const Plugin chatty{.name = "chatty", .verbs = {.add = [](const Request&, Undo&) -> Result {
                                          std::puts("chatter");
                                          std::fflush(stdout);
                                          return {};
                                        }}};
  const Process got = in_process(kConf, [&chatty] {
    set_environment(env_for("ADD"));
    return cni::plugin_main(chatty, 1, no_arguments);
  });
  CHECK(got.status == 0);
  CHECK(got.out == "{\n    \"cniVersion\": \"1.1.0\"\n}");
  CHECK(got.err == "chatter\n");
}

TEST_CASE("a plugin that was started without a stdout undoes ADD and says so") {
  const Plugin plugin{.name = "fake", .verbs = {.add = [](const Request&, Undo& undo) -> Result {
                                        struct Say {
                                          void operator()() const { cni::note("undone"); }
                                          std::string describe() const { return "say"; }
                                        };
                                        undo.add(Say{});
                                        return {};
                                      }}};
  const auto add_with = [&plugin] {
    set_environment(env_for("ADD"));
    return cni::plugin_main(plugin, 1, no_arguments);
  };
  const Process got = in_process(kConf, add_with, true);
  CHECK(got.status == 1);
  CHECK(got.out.empty());
  CHECK(got.err.starts_with("undone\n"));
  CHECK(got.err.find("write 'stdout': bad file descriptor") != std::string::npos);
}
