#include "cnitool/node_object.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cnitool/json_at.h"
#include "cnitool/output.h"
#include "libcni/config/conf.h"
#include "libcni/config/json.h"
#include "netlink/types/fd.h"

namespace tool {

namespace {

using netlink::Cidr;
using netlink::Ip;
using nlohmann::json;

[[noreturn]] void refuse_object(const std::string& what, const std::string& details = {}) {
  throw cni::Error(cni::Code::kInvalidConfig, what, details);
}

constexpr const char* kCommands =
    "`kubectl get nodes -o json` prints all Nodes, `kubectl get node NAME -o json` one";

void add_pod_cidr(NodeObject& node, const cni::Reader& place, const std::string& source) {
  const std::string text = place.as_string();
  const auto one = Cidr::parse(text);
  if (!one) refuse_object(cat(source, ": spec.podCIDRs: not a network: \"", text, "\""));
  node.pod_cidrs.push_back(*one);
}

NodeObject node_in(const json& object, const std::string& source) {
  if (text_at(object, "kind") != "Node") {
    refuse_object(cat(source, ": kind is \"", text_at(object, "kind"), "\", expected \"Node\""),
                  kCommands);
  }
  const cni::Reader root(object, cni::Code::kInvalidConfig, source);
  NodeObject out;
  root["metadata"].into("name", out.name);
  const cni::Reader spec = root["spec"];
  for (const cni::Reader& one : spec["podCIDRs"].elements()) add_pod_cidr(out, one, source);
  if (const cni::Reader one = spec["podCIDR"]; out.pod_cidrs.empty() && one.present()) {
    add_pod_cidr(out, one, source);
  }
  for (const cni::Reader& one : root["status"]["addresses"].elements()) {
    const auto ip = Ip::parse(text_at(one.json(), "address"));
    if (ip && text_at(one.json(), "type") == "InternalIP") out.addresses.push_back(*ip);
  }
  return out;
}

}  // namespace

std::string source_of(const std::string& path) { return path == "-" ? "stdin" : path; }

std::string input_from(const std::string& path) {
  if (path == "-") return netlink::read_all(STDIN_FILENO, "stdin");
  const auto text = netlink::read_regular_file(path);
  if (!text) refuse_object(cat("open ", path, ": no such file or directory"));
  return *text;
}

std::vector<NodeObject> node_objects(const std::string& text, const std::string& source) {
  const json doc = cni::parse_json(text, source);
  const json* const items = member(doc, "items");
  if (items == nullptr || !items->is_array()) return {node_in(doc, source)};
  std::vector<NodeObject> out;
  for (const json& one : *items) {
    out.push_back(node_in(one, cat(source, ": items[", out.size(), "]")));
  }
  return out;
}

NodeObject node_object(const std::string& text, const std::string& source) {
  auto all = node_objects(text, source);
  if (all.size() != 1) {
    refuse_object(cat(source, ": a list of ", counted(all.size(), "object"), ", expected a Node"),
                  kCommands);
  }
  return std::move(all[0]);
}

}  // namespace tool
