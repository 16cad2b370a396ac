#include "libcni/plugin/repair.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/unit/libcni/runtime_node.h"

using cni::Repair;
using namespace runtime_node;

TEST_CASE("a part that is whole is not touched") {
  Repair repair;
  CHECK(repair.part([] {}, [] { FAIL("it was touched"); }));
  CHECK(repair.found().empty());
}

TEST_CASE("a part that is not is named and made again, unless it is only looked at") {
  for (const bool only_look : {false, true}) {
    Repair repair(only_look);
    bool fixed = false;
    const bool whole = repair.part([] { throw Error(Code::kInternal, "the rule is missing"); },
                                   [&] { fixed = true; });
    CHECK(whole == !only_look);
    CHECK(fixed == !only_look);
    CHECK(repair.found() == std::vector<std::string>{"the rule is missing"});
  }
}

TEST_CASE("what cannot be looked at or made again is an error") {
  Repair repair;
  CHECK_THROWS_AS(repair.part([] { throw netlink::Error("list links", EPERM); }, [] {}),
                  netlink::Error);
  CHECK_THROWS_AS(repair.part([] { throw Error(Code::kInternal, "gone"); },
                              [] { throw Error(Code::kInvalidConfig, "somebody else's"); }),
                  Error);
}

namespace {

// Shell code: a plugin of ours, which finds what is given ("\"bridge\"") and has this result then.
std::string ours(const std::string& found, const std::string& result = kResult) {
  return cat("case $CNI_COMMAND in VERSION) if [ -n \"$PATCHBAY_VERBS\" ]; then more='",
             R"(,"patchbay/verbs": ["REPAIR"])", "'; fi\n",
             R"(echo "{\"cniVersion\": \"1.0.0\", \"supportedVersions\": [\"1.0.0\"]$more}")",
             "; exit;;\nREPAIR) echo '{\"found\": [", found, "], \"result\": ", result,
             "}'; exit;; esac");
}

std::string foreign() {
  return R"([ $CNI_COMMAND != VERSION ] ||
      echo '{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}')";
}

Runtime::RepairReport report_of(const Node& node, bool only_look = false) {
  const auto report = node.runtime().repair(node.list, {"c1", "eth0"}, only_look);
  REQUIRE(report);
  return *report;
}

struct Added : Node {
  Added() {
    plugin("one", ours(""));
    plugin("two", foreign());
    plugin("three", ours(""));
    target.capabilities = json({{"ips", {"10.0.0.2/8"}}});
    target.args = {{"A", "b"}};
    add();
    log();
  }
};

}  // namespace

TEST_CASE("repairing: those that know the verb get it with what ADD had, the others CHECK") {
  Added node;
  const auto report = report_of(node);
  CHECK(report.ok());
  CHECK(report.found.empty());
  CHECK(node.log() ==
        "VERSION:one REPAIR:one VERSION:two CHECK:two VERSION:three REPAIR:three CHECK:one "
        "CHECK:three ");
  const json input = node.input("one", "REPAIR");
  CHECK(input.at("prevResult") == json::parse(kResult));
  CHECK(input.at("runtimeConfig") == json::parse(R"({"ips": ["10.0.0.2/8"]})"));
  CHECK_FALSE(input.contains(Repair::kLookKey));
  CHECK(node.variable("one", "REPAIR", "CNI_ARGS") == "A=b");
  CHECK(node.variable("one", "REPAIR", "CNI_NETNS") == "/nowhere/ns");
}

TEST_CASE("repairing: what was wrong is told, and a result that is another now is remembered") {
  Added node;
  const std::string other = R"({"cniVersion": "1.1.0", "ips": [{"address": "10.0.0.9/8"}]})";
  node.plugin("one", ours(R"("the bridge", "the port")", other));
  const auto before = node.find();
  const auto report = report_of(node);
  CHECK(report.ok());
  REQUIRE(report.found.size() == 2);
  CHECK(report.found[1].plugin == "one");
  CHECK(report.found[1].what == "the port");
  CHECK(node.input("three", "REPAIR").at("prevResult") == json::parse(other));
  CHECK(node.input("three", "CHECK").at("prevResult") == json::parse(other));
  const auto after = node.find();
  REQUIRE(after);
  CHECK(*after->result == json::parse(other));
  CHECK(after->config == before->config);
  CHECK(*after->capabilities == *before->capabilities);
}

TEST_CASE("repairing: without a finding the cache is not written") {
  Added node;
  node.plugin("one", ours("", R"({"cniVersion": "1.1.0"})"));
  const auto before = node.find();
  report_of(node);
  CHECK(node.find()->stamp == before->stamp);
  CHECK(*node.find()->result == *before->result);
}

TEST_CASE("repairing: looking only changes nothing and asks the plugins for no more") {
  Added node;
  node.plugin("one", ours(R"("the bridge")", R"({"cniVersion": "1.1.0"})"));
  const auto before = node.find();
  const auto report = report_of(node, true);
  CHECK(report.found.size() == 1);
  CHECK(node.input("one", "REPAIR").at(Repair::kLookKey) == true);
  CHECK(node.find()->stamp == before->stamp);
  CHECK(node.log().find("CHECK:one") == std::string::npos);  // it would say the same again
}

TEST_CASE("repairing: a plugin of others that says no is named, and the rest repaired") {
  Added node;
  node.plugin("two", foreign() + "\n" + fails("CHECK", 100, "its rule is gone"));
  node.plugin("three", ours(R"("a port")"));
  const auto report = report_of(node);
  CHECK_FALSE(report.ok());
  REQUIRE(report.foreign.size() == 1);
  CHECK(report.foreign[0].plugin == "two");
  CHECK(report.foreign[0].what.ends_with("its rule is gone"));
  CHECK(report.found.size() == 1);
  CHECK_FALSE(report.error);
}

TEST_CASE("repairing: nothing is made on what could not be repaired") {
  Added node;
  node.plugin("one", fails("REPAIR", 7, "it is no bridge") + "\n" + ours(""));
  const auto report = report_of(node);
  REQUIRE(report.error);
  CHECK(report.error->code() == Code::kInvalidConfig);
  CHECK(std::string(report.error->what()) ==
        "plugin type=\"one\" failed (repair): it is no bridge");
  CHECK(node.log() == "VERSION:one REPAIR:one ");
}

TEST_CASE("repairing: a CHECK that fails afterwards is an error") {
  Added node;
  node.plugin("three", fails("CHECK", 100, "no address") + "\n" + ours(""));
  const auto report = report_of(node);
  REQUIRE(report.error);
  CHECK(std::string(report.error->what()).ends_with("failed (check): no address"));
}

TEST_CASE("repairing: what the cache does not have, or has unfinished, is left alone") {
  Node node;
  CHECK_FALSE(node.runtime().repair(node.list, {"c1", "eth0"}));
  node.options.undo_failed_add = false;
  node.plugin("two", fails("ADD"));
  CHECK_THROWS_AS(node.add(), Error);
  node.log();
  CHECK_FALSE(node.runtime().repair(node.list, {"c1", "eth0"}));
  CHECK(node.log().empty());
}

TEST_CASE("repairing: a list too old for CHECK is refused") {
  Node node;
  node.list = list_from(R"({"cniVersion": "0.3.1", "name": "net", "plugins": [{"type": "one"}]})");
  CHECK(error_of([&] {
          node.runtime().repair(node.list, {"c1", "eth0"});
        }).code() == Code::kIncompatibleVersion);
  CHECK(node.log().empty());
}

TEST_CASE("repairing: an answer without a result is an error that has the answer") {
  Added node;
  node.plugin("one", "[ $CNI_COMMAND != REPAIR ] || { echo ok; exit; }\n" + ours(""));
  const auto report = report_of(node);
  REQUIRE(report.error);
  CHECK(report.error->code() == Code::kDecodingFailure);
  CHECK(report.error->details() == "ok\n");
}
