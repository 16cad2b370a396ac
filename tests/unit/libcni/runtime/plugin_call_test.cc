#include "libcni/runtime/plugin_call.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/libcni/runtime_node.h"
#include "tests/unit/libcni/stderr.h"

using namespace runtime_node;

TEST_CASE("plugins find all CNI_* variables in their environment, and the runtime's own ones") {
  Node node;
  node.options.path.insert(node.options.path.begin(), "/nowhere/at/all");
  node.target.args = {{"IgnoreUnknown", "1"}, {"K8S_POD_NAME", "p"}};
  node.add();
  node.gc({{"c1", "eth0"}});
  const auto of = [&node](const char* command, const char* name) {
    return node.variable("two", command, name);
  };
  CHECK(of("ADD", "CNI_COMMAND") == "ADD");
  CHECK(of("ADD", "CNI_CONTAINERID") == "c1");
  CHECK(of("ADD", "CNI_NETNS") == "/nowhere/ns");
  CHECK(of("ADD", "CNI_IFNAME") == "eth0");
  CHECK(of("ADD", "CNI_ARGS") == "IgnoreUnknown=1;K8S_POD_NAME=p");
  CHECK(of("ADD", "CNI_PATH") == cat("/nowhere/at/all:", node.options.path[1]));
  CHECK(of("ADD", "TRACEPARENT") == "00-1-2-3");
  CHECK(of("ADD", "HOME") == "(absent)");
  CHECK(of("GC", "CNI_COMMAND") == "GC");
  for (const char* name : {"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS"}) {
    CHECK(of("GC", name) == "");  // set, and empty
  }
  CHECK(of("GC", "CNI_PATH") == of("ADD", "CNI_PATH"));
  CHECK(of("GC", "TRACEPARENT") == "00-1-2-3");
}

TEST_CASE("runtimeConfig holds what a plugin declares and the runtime gives, and only that") {
  Node node;
  node.target.capabilities = json({{"ips", {"10.0.0.2/8"}}, {"mac", "x"}, {"dns", nullptr}});
  node.add();
  node.check();
  node.del();
  for (const char* verb : {"ADD", "CHECK", "DEL"}) {
    CHECK(node.input("one", verb).at("runtimeConfig") == json{{"ips", {"10.0.0.2/8"}}});
    CHECK(node.input("two", verb).at("runtimeConfig") == json{{"ips", {"10.0.0.2/8"}}});
    CHECK_FALSE(node.input("three", verb).contains("runtimeConfig"));
  }
  node.target.capabilities = json({{"mac", "x"}});
  node.add();
  CHECK_FALSE(node.input("one", "ADD").contains("runtimeConfig"));
  node.gc({{"c1", "eth0"}});
  CHECK_FALSE(node.input("two", "GC").contains("runtimeConfig"));
}

TEST_CASE("ADD: what a plugin prints must be a result") {
  const struct {
    const char *printed, *complaint;
  } table[] = {
      {"", "it printed nothing"},
      {"{", "it is not JSON: parse error"},
      {"[]", "it is not a JSON object"},
      {R"({"cniVersion": "9.0.0"})", "unsupported CNI result version \"9.0.0\""},
      {R"({"cniVersion": "1.0.0", "ips": [{"address": "x"}]})", "ips[0].address: expected"},
      {R"({"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.1/8", "interface": "0"}],
          "interfaces": [{"name": "x"}]})",
       "ips[0].interface: expected"},
  };
  for (const auto& row : table) {
    CAPTURE(row.printed);
    Node node;
    node.plugin("two", cat("[ $CNI_COMMAND != ADD ] || { echo '", row.printed, "'; exit 0; }"));
    const Error e = error_of([&] { node.add(); });
    CHECK(std::string(e.what()).starts_with(
        cat("plugin type=\"two\" name=\"second\" failed (add): read its result: ", row.complaint)));
    CHECK(e.details() == cat(row.printed, "\n"));
    CHECK(node.log() == "ADD:one ADD:two DEL:two DEL:one ");
    CHECK_FALSE(node.has_cached());
  }
}

TEST_CASE("ADD: a result without a version is of the list's; null is an empty one") {
  for (const char* printed : {"null", "{}", R"({"cniVersion": ""})"}) {
    CAPTURE(printed);
    Node node;
    node.plugin("three", cat("echo '", printed, "'; exit 0"));
    CHECK(node.runtime().add(node.list, node.target).dump() == R"({"cniVersion":"1.1.0"})");
  }
}

TEST_CASE("ADD: a result keeps the keys and the order that the plugin gave it") {
  Node node;
  const std::string printed =
      R"({"routes":[{"dst":"10.0.0.0/8","gw":"fe80::1"}],"cniVersion":"1.0.0","more":{"z":1,"a":2}})";
  node.plugin("three", cat("echo '", printed, "'; exit 0"));
  CHECK(node.runtime().add(node.list, node.target).dump() == printed);
  CHECK(*node.find()->result == json::parse(printed));
}

TEST_CASE("a plugin that takes too long is named, and undone") {
  Node node;
  node.options.limit = std::chrono::seconds(1);
  node.plugin("two", "[ $CNI_COMMAND != ADD ] || { echo stuck >&2; sleep 60; }");
  const Error e = error_of([&] { node.add(); });
  CHECK(e.code() == Code::kTryAgainLater);
  CHECK(std::string(e.what()) == cat("plugin type=\"two\" name=\"second\" failed (add): run '",
                                     node.file("two"), "': it took too long and was stopped"));
  CHECK(e.details() == "stuck\n");
  CHECK(node.log() == "ADD:one ADD:two DEL:two DEL:one ");
  CHECK_FALSE(node.has_cached());
}

TEST_CASE("what plugins say on stderr is passed on, unless it is the error itself") {
  Node node;
  node.plugin("one", "echo good >&2");
  node.plugin("two", "echo bad >&2; [ $CNI_COMMAND = DEL ] || exit 3");
  const StderrKept kept;
  CHECK(std::string(error_of([&] { node.add(); }).what())
            .ends_with("plugin 'two' failed (exit status 3): bad\n"));
  CHECK(kept.text() == "good\nbad\ngood\n");  // ADD:one, DEL:two, DEL:one
}

TEST_CASE("an observer sees every call, its input, its output and how long it took") {
  Node node;
  node.plugin("two", "sleep 0.05; " + fails("ADD", 11, "no ports"));
  std::string seen;
  node.options.observer = [&](const cni::PluginRun& run) {
    seen += cat(str(run.command), ":", run.plugin.type, run.error ? " failed " : " ");
    CHECK(run.file == node.file(run.plugin.type));
    CHECK(json::parse(run.input).at("name") == "net");
    if (run.plugin.type == "two" && run.command == Command::kAdd) {
      CHECK(run.took >= std::chrono::milliseconds(50));
      CHECK(run.error->code() == Code::kTryAgainLater);
      CHECK(json::parse(run.outcome.out).at("code") == 11);
    } else if (run.command == Command::kAdd) {
      CHECK(json::parse(run.outcome.out) == json::parse(kResult));
    }
  };
  CHECK_THROWS_AS(node.add(), Error);
  CHECK(seen == "ADD:one ADD:two failed DEL:two DEL:one ");
}
