#include "cnitool/settings.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

using cni::Error;
using tool::Settings;

namespace {

Settings settings(const cni::Env& env = {}) { return Settings::from(env); }

std::string container_of(const std::string& netns) {
  return key_of(settings(), "net", netns).container_id;
}

std::string complaint(const Settings& settings) {
  try {
    target_of(settings, "/x");
  } catch (const Error& e) {
    return e.what();
  }
  return "(none)";
}

}  // namespace

TEST_CASE("settings: the environment counts, and what the reference takes without it") {
  Settings out = settings();
  CHECK(out.conf_dir.empty());
  CHECK(out.path.empty());
  CHECK(out.ifname == "eth0");
  CHECK(out.cache_dir == "/var/lib/cni");
  out = settings({{"NETCONFPATH", "/a"}, {"CNI_PATH", "/b:/c"}, {"CNI_IFNAME", "net1"}});
  CHECK(out.conf_dir == "/a");
  CHECK(out.ifname == "net1");
  CHECK(runtime_options(out, {}).path == std::vector<std::string>{"/b", "/c"});
  use_runtime(out);
  CHECK(out.conf_dir == "/a");
  out = settings({{"NETCONFPATH", ""}, {"CNI_PATH", ""}, {"CNI_IFNAME", ""}});
  CHECK(out.conf_dir.empty());
  use_runtime(out);
  CHECK_FALSE(out.conf_dir.empty());
  CHECK_FALSE(out.path.empty());
  CHECK(out.ifname == "eth0");
}

TEST_CASE("settings: the container is named after the namespace's absolute path") {
  // printf /run/netns/x | sha512sum
  CHECK(container_of("/run/netns/x") == "cnitool-55e2cecc95014b0f7fc4");
  CHECK(container_of("/run//netns/./y/../x") == container_of("/run/netns/x"));
  CHECK(container_of("/run/netns/x/") == container_of("/run/netns/x"));
  const auto here = std::filesystem::current_path();
  CHECK(container_of("x") == container_of((here / "x").string()));
  CHECK(target_of(settings(), "x").netns == (here / "x").string());
  Settings named = settings();
  named.container_id = "c1";
  CHECK(key_of(named, "net", "/x") == cni::AttachmentKey{"net", "c1", "eth0"});
}

TEST_CASE("settings: CNI_ARGS are pairs") {
  const cni::Target target = target_of(settings({{"CNI_ARGS", "IgnoreUnknown=1;A=b=c"}}), "/x");
  CHECK(target.args == cni::Args{{"IgnoreUnknown", "1"}, {"A", "b=c"}});
  for (const char* text : {"x", "=x", "x=", "a=b;c", ";a=b", "a=b;", "a=b;;c=d"}) {
    CHECK(complaint(settings({{"CNI_ARGS", text}})).starts_with("invalid CNI_ARGS pair \""));
  }
}

TEST_CASE("settings: CAP_ARGS is a JSON object") {
  CHECK(target_of(settings(), "/x").capabilities->is_null());
  CHECK(target_of(settings({{"CAP_ARGS", R"({"ips": []})"}}), "/x").capabilities->contains("ips"));
  CHECK(complaint(settings({{"CAP_ARGS", "{"}})).starts_with("CAP_ARGS is not JSON: parse error"));
  CHECK(complaint(settings({{"CAP_ARGS", "[]"}})) == "CAP_ARGS: expected a JSON object");
}

TEST_CASE("settings: no limit is a limit") {
  Settings out = settings();
  CHECK(runtime_options(out, {}).limit == std::chrono::seconds(220));
  out.limit = 0;
  CHECK(runtime_options(out, {}).limit == cni::kNoLimit);
}

TEST_CASE("settings: what is to be kept") {
  CHECK(tool::attachment_from("c1") == cni::Attachment{"c1", "eth0"});
  CHECK(tool::attachment_from("c1:net1") == cni::Attachment{"c1", "net1"});
  for (const char* text : {"", ":", ":eth0", "c1:"}) {
    CHECK_THROWS_AS(tool::attachment_from(text), Error);
  }
  const auto list = tool::attachments_from(
      R"([{"containerID": "a", "ifname": "x"}, {"containerID": "b", "ifname": "y", "more": 1}])");
  CHECK(list == std::vector<cni::Attachment>{{"a", "x"}, {"b", "y"}});
  CHECK(tool::attachments_from("[]").empty());
  for (const char* text : {"", "{}", "null", "5", "[5]", "[{}]", R"([{"containerID": "a"}])",
                           R"([{"containerID": 1, "ifname": "x"}])", "[[]]"}) {
    CHECK_THROWS_AS(tool::attachments_from(text), Error);
  }
}
