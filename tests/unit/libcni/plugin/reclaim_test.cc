#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "libcni/plugin/plugin.h"
#include "tests/unit/libcni/runtime_node.h"
#include "tests/unit/surroundings.h"

using namespace runtime_node;
using cni::Env;
using cni::Plugin;
using cni::Repair;
using netlink::Fd;

namespace {

struct Ran {
  int status = 0;
  std::string out;
};

Ran ran(const Plugin& plugin, const std::string& verb, const Env& more = {}) {
  Env env{{"CNI_COMMAND", verb},
          {"CNI_CONTAINERID", "id"},
          {"CNI_NETNS", ""},
          {"CNI_IFNAME", "eth0"},
          {"CNI_PATH", "/nowhere"}};
  env.insert(more.begin(), more.end());
  const Fd in = surroundings::file_with(R"({"cniVersion": "0.3.1", "name": "n", "type": "fake"})");
  const Fd out = surroundings::file_with("");
  const int status = cni::run(plugin, {.env = env, .in = in.get(), .out = out.get()});
  return {status, surroundings::content_of(out)};
}

bool mended = false;

void reclaim(const cni::Request&, Repair& repair) {
  repair.part([] { throw Error(Code::kInternal, "no device"); }, [] { mended = true; });
}

// Shell code: a plugin that knows RECLAIM.
std::string reclaims(const std::string& answer) {
  return cat("case $CNI_COMMAND in VERSION) echo '{\"cniVersion\": \"1.0.0\", ",
             R"("supportedVersions": ["1.0.0"], "patchbay/verbs": ["RECLAIM"]}'; exit;;)", "\n",
             "RECLAIM) ", answer, "; exit;; esac");
}

struct Recorded : Node {
  Recorded() {
    target.capabilities = json({{"ips", {"10.0.0.2/8"}}});
    target.args = {{"A", "b"}};
    add();
    log();
  }
};

}  // namespace

TEST_CASE("RECLAIM needs no namespace, and answers with what was wrong") {
  Plugin plugin{.name = "fake"};
  CHECK(ran(plugin, "RECLAIM").status == 1);
  plugin.verbs.reclaim = reclaim;
  const Ran got = ran(plugin, "RECLAIM");
  CHECK(got.status == 0);
  CHECK(mended);
  CHECK(json::parse(got.out) == json({{"cniVersion", "0.3.1"}, {"found", {"no device"}}}));
  CHECK(ran(plugin, "REPAIR").status == 1);  // the one is not the other
}

TEST_CASE("RECLAIM is announced beside REPAIR to those who ask") {
  Plugin plugin{.name = "fake", .verbs = {.reclaim = reclaim}};
  const auto verbs = [&] {
    return json::parse(ran(plugin, "VERSION", {{Repair::kAsk, "1"}}).out).at(Repair::kVerbsKey);
  };
  CHECK(verbs() == json({"RECLAIM"}));
  plugin.verbs.repair = [](const cni::Request&, Repair&) { return cni::Result{}; };
  CHECK(verbs() == json({"REPAIR", "RECLAIM"}));
}

TEST_CASE("reclaiming: those that know the verb get it with what ADD had, and no other is called") {
  Recorded node;
  node.plugin("one", fails("VERSION", 100, "it was removed"));
  node.plugin("two", reclaims("echo '{\"found\": [\"a device\"]}'"));
  const auto report = node.runtime().reclaim(node.list, {"c1", "eth0"}, true);
  REQUIRE(report);
  CHECK(report->ok());
  REQUIRE(report->found.size() == 1);
  CHECK(report->found[0].plugin == "two");
  CHECK(report->found[0].what == "a device");
  CHECK(node.log() == "VERSION:one VERSION:two RECLAIM:two VERSION:three ");
  CHECK(node.input("two", "RECLAIM").at(Repair::kLookKey) == true);
  CHECK(node.variable("two", "RECLAIM", "CNI_ARGS") == "A=b");
  CHECK(node.find());  // it is for DEL
  CHECK_FALSE(node.runtime().reclaim(node.list, {"c2", "eth0"}));
}

TEST_CASE("reclaiming: a failure names the plugin") {
  Recorded node;
  node.plugin("two", reclaims("echo '{\"code\": 999, \"msg\": \"file exists\"}'; exit 1"));
  const auto report = node.runtime().reclaim(node.list, {"c1", "eth0"});
  REQUIRE(report);
  REQUIRE(report->error);
  CHECK(std::string(report->error->what()) ==
        "plugin type=\"two\" name=\"second\" failed (reclaim): file exists");
}
