#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "libcni/runtime/runtime.h"
#include "netlink/types/fd.h"
#include "tests/unit/surroundings.h"

/// A runtime and three plugins that write down how they were called.
namespace runtime_node {

using cni::Attachment;
using cni::Cache;
using cni::cat;
using cni::Code;
using cni::Command;
using cni::Error;
using cni::list_from;
using cni::NetworkList;
using cni::Runtime;
using cni::RuntimeOptions;
using cni::Target;
using nlohmann::json;
using surroundings::Folder;

inline const char* const kResult = R"({"cniVersion": "1.1.0", "ips": [{"address": "10.0.0.2/8"}]})";

// Plugins that write down how they were called, and a runtime that calls them.
class Node {
 public:
  Node() {
    options.path = {folder_.path()};
    options.cache_dir = folder_.file("cni");
    options.env = {
        {"PATH", "/usr/bin:/bin"}, {"CNI_IFNAME", "not this"}, {"TRACEPARENT", "00-1-2-3"}};
    plugin("one");
    plugin("two");
    plugin("three");
  }

  // A plugin that answers ADD with a result; body is shell code that runs before.
  void plugin(const std::string& name, const std::string& body = "") {
    std::filesystem::remove(folder_.file(name));
    folder_.script(name, cat("echo $CNI_COMMAND:", name, " >>", folder_.file("log"), "\nat=",
                             folder_.file(name), ".$CNI_COMMAND\ncat >$at.stdin\nenv >$at.env\n",
                             body, "\n[ $CNI_COMMAND != ADD ] || echo '", kResult, "'"));
  }
  std::string log() {
    std::string text = netlink::read_file(folder_.file("log")).value_or("");
    for (char& c : text) c = c == '\n' ? ' ' : c;
    std::filesystem::remove(folder_.file("log"));
    return text;
  }
  json input(const std::string& plugin, const std::string& command) const {
    return json::parse(
        netlink::read_file(folder_.file(cat(plugin, ".", command, ".stdin"))).value());
  }
  // A variable of the environment; "(absent)".
  std::string variable(const std::string& plugin, const std::string& command,
                       const std::string& name) const {
    const std::string env =
        "\n" + netlink::read_file(folder_.file(cat(plugin, ".", command, ".env"))).value();
    const auto at = env.find(cat("\n", name, "="));
    if (at == std::string::npos) return "(absent)";
    const auto from = at + name.size() + 2;
    return env.substr(from, env.find('\n', from) - from);
  }
  std::string file(const std::string& name) const { return folder_.file(name); }
  std::string cached() const { return folder_.file("cni/results/net-c1-eth0"); }
  bool has_cached() const { return std::filesystem::exists(cached()); }
  void write_cached(std::string_view content) const {
    std::filesystem::remove(cached());
    std::filesystem::create_directories(folder_.file("cni/results"));
    netlink::write_all(surroundings::open_for_writing(cached()).get(), content, "cache");
  }
  std::optional<cni::CachedAttachment> find() const {
    return Cache(options.cache_dir).find({"net", "c1", "eth0"});
  }

  Runtime runtime() const { return Runtime(options); }
  void add() const { runtime().add(list, target); }
  void del() const { runtime().del(list, target); }
  void check() const { runtime().check(list, target); }
  void gc(const std::vector<Attachment>& valid = {}) const { runtime().gc(list, valid); }

  RuntimeOptions options;
  NetworkList list = list_from(R"({"cniVersion": "1.1.0", "name": "net", "plugins": [
      {"type": "one", "key": {"x": [1]}, "capabilities": {"ips": true, "mac": false}},
      {"type": "two", "name": "second", "capabilities": {"portMappings": true, "ips": true}},
      {"type": "three"}]})");
  Target target{.container_id = "c1", .netns = "/nowhere/ns"};

 private:
  Folder folder_;
};

template <class Fn>
Error error_of(Fn&& fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e;
  }
  FAIL("nothing was thrown");
  return {Code::kInternal, ""};
}

// Shell code: VERB ends with an error object.
inline std::string fails(const std::string& verb, unsigned code = 100,
                         const std::string& msg = "broken") {
  return cat("[ $CNI_COMMAND != ", verb, " ] || { echo '{\"code\": ", code, ", \"msg\": \"", msg,
             "\", \"details\": \"d\"}'; exit 1; }");
}

}  // namespace runtime_node
