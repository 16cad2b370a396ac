#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "libcni/plugin/plugin.h"
#include "tests/unit/libcni/runtime_node.h"
#include "tests/unit/surroundings.h"

using namespace runtime_node;
using cni::Form;
using cni::Plugin;
using cni::Repair;
using netlink::Fd;

namespace {

std::string changed;

void migrate(const cni::Request&, Repair& repair) {
  const std::string form = repair.to_reference() ? "reference" : "own";
  repair.change(std::nullopt, [] { changed = "what is as it should be"; });
  repair.change(form, [&] { changed = form; });
}

struct Answer {
  int status = 0;
  std::string out;
};

Answer answer_to_migrate(const Plugin& plugin, const std::string& more) {
  const cni::Env env{{"CNI_COMMAND", "MIGRATE"},
                     {"CNI_CONTAINERID", "id"},
                     {"CNI_NETNS", "/run/netns/none"},
                     {"CNI_IFNAME", "eth0"},
                     {"CNI_PATH", "/nowhere"}};
  changed.clear();
  const Fd in = surroundings::file_with(
      cat(R"({"cniVersion": "1.0.0", "name": "n", "type": "fake")", more, "}"));
  const Fd out = surroundings::file_with("");
  const int status = cni::run(plugin, {.env = env, .in = in.get(), .out = out.get()});
  return {status, surroundings::content_of(out)};
}

// Shell code: a plugin that knows these verbs.
std::string knows(const std::string& verbs, const std::string& answer = "true") {
  return cat("case $CNI_COMMAND in VERSION) echo '{\"cniVersion\": \"1.0.0\", ",
             R"("supportedVersions": ["1.0.0"], "patchbay/verbs": [)", verbs, "]}'; exit;;", "\n",
             "MIGRATE) ", answer, "; exit;; esac");
}

struct Migrated : Node {
  explicit Migrated(const std::string& answer) {
    add();
    log();
    plugin("one", knows(""));
    plugin("two", knows(R"("REPAIR", "MIGRATE")", answer));
    plugin("three", knows(R"("REPAIR")"));
  }
};

}  // namespace

TEST_CASE("MIGRATE gives the form that the config names, and says what changed") {
  Plugin plugin{.name = "fake"};
  CHECK(answer_to_migrate(plugin, "").status == 1);
  plugin.verbs.migrate = migrate;
  for (const auto& [more, form] :
       {std::pair{"", "own"}, {R"(, "patchbay/form": "reference")", "reference"}}) {
    const Answer got = answer_to_migrate(plugin, more);
    CHECK(got.status == 0);
    CHECK(changed == form);
    CHECK(json::parse(got.out) == json({{"cniVersion", "1.0.0"}, {"found", {form}}}));
  }
  CHECK(answer_to_migrate(plugin, R"(, "patchbay/onlyLook": true)").status == 0);
  CHECK(changed.empty());
}

TEST_CASE("migrating: plugins that have the verb get it, and those of other projects are named") {
  Migrated node("echo '{\"found\": [\"a chain\"]}'");
  const auto report = node.runtime().migrate(node.list, {"c1", "eth0"}, Form::kReference);
  REQUIRE(report);
  CHECK(!report->error);
  REQUIRE(report->found.size() == 1);
  CHECK(report->found[0].what == "a chain");
  REQUIRE(report->foreign.size() == 1);
  CHECK(report->foreign[0].plugin == "one");
  CHECK(node.input("two", "MIGRATE").at(Repair::kFormKey) == Repair::kToReference);
  CHECK(node.input("two", "MIGRATE").contains("prevResult"));
  CHECK(node.log().find("CHECK") == std::string::npos);  // it does not know the other form
  CHECK(node.runtime().migrate(node.list, {"c1", "eth0"}, Form::kOwn)->found.size() == 1);
  CHECK(node.log().ends_with("CHECK:two CHECK:three "));
  CHECK_FALSE(node.runtime().migrate(node.list, {"c2", "eth0"}, Form::kOwn));
}

TEST_CASE("migrating: CHECK of those that are ours follows, and a failure names the plugin") {
  Migrated node("echo '{\"code\": 999, \"msg\": \"no table\"}'; exit 1");
  const auto report = node.runtime().migrate(node.list, {"c1", "eth0"}, Form::kOwn);
  REQUIRE(report);
  REQUIRE(report->error);
  CHECK(std::string(report->error->what()) ==
        "plugin type=\"two\" name=\"second\" failed (migrate): no table");
}
