#include "cnitool/preset.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "cnitool/known_plugins.h"
#include "cnitool/preset_input.h"
#include "libcni/common/dir.h"

// conf-examples/kubernetes/10-NAME.conflist, which the build embeds.
namespace tool::presets {
namespace kubenet {
std::span<const std::byte> object() noexcept;
}
namespace kind {
std::span<const std::byte> object() noexcept;
}
namespace flannel {
std::span<const std::byte> object() noexcept;
}
}  // namespace tool::presets

namespace tool {

namespace {

using Json = nlohmann::ordered_json;
using netlink::Cidr;
using netlink::Family;

bool has(const std::vector<Cidr>& all, Family family) {
  return std::ranges::any_of(all, [&](const Cidr& one) { return one.ip.family() == family; });
}

// The example of conf-examples/kubernetes.
Json example(const std::string& name) {
  const std::span<const std::byte> bytes = name == "kind"      ? presets::kind::object()
                                           : name == "flannel" ? presets::flannel::object()
                                                               : presets::kubenet::object();
  std::string text;
  for (const std::byte one : bytes) text += static_cast<char>(one);
  return Json::parse(text);
}

// One set of addresses for each pod CIDR, and a default route for its family.
void set_addresses(const std::vector<Cidr>& pod_cidrs, Json& ipam) {
  Json ranges = Json::array(), routes = Json::array();
  for (const Cidr& one : pod_cidrs) {
    ranges.push_back(Json::array({{{"subnet", one.str()}}}));
    routes.push_back({{"dst", one.ip.is_v4() ? "0.0.0.0/0" : "::/0"}});
  }
  ipam["ranges"] = ranges;
  ipam["routes"] = routes;
}

// What the bridge or ptp of the list has of the node; in flannel's list it is the delegate.
Json& interface_of(Json& list) {
  Json& first = list["plugins"][0];
  return first.contains("delegate") ? first["delegate"] : first;
}

Json list_of(const PresetOptions& options, const PresetInput& input) {
  Json out = example(options.name);
  out["cniVersion"] = options.version;
  Json& interface = interface_of(out);
  if (input.mtu != 0) interface["mtu"] = input.mtu;
  if (!input.pod_cidrs.empty()) set_addresses(input.pod_cidrs, interface["ipam"]);
  if (!input.except.empty()) {
    interface["ipMasq"] = true;
    interface["ipMasqExcept"] = Json::array();
    for (const Cidr& one : input.except) interface["ipMasqExcept"].push_back(one.str());
  }
  Json& plugins = out["plugins"];
  if (options.devices)
    plugins.insert(plugins.begin() + 1, Json{{"type", type_with(cni::Fact::kDevices)}});
  return out;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

// Go's text/template; containerd has .PodCIDRRanges and .Routes for it.
std::string containerd_template(const PresetInput& input, const PresetOptions& options) {
  constexpr const char *kRanges = "\"@ranges@\"", *kRoutes = "\"@routes@\"";
  Json list = list_of(options, input);
  Json& ipam = interface_of(list)["ipam"];
  ipam["ranges"] = "@ranges@";
  ipam["routes"] = "@routes@";
  const std::string text = replaced(list.dump(4) + '\n', kRanges,
                                    "[{{range $i, $range := .PodCIDRRanges}}{{if $i}}, {{end}}"
                                    "[{\"subnet\": \"{{$range}}\"}]{{end}}]");
  return replaced(text, kRoutes,
                  "[{{range $i, $route := .Routes}}{{if $i}}, {{end}}"
                  "{\"dst\": \"{{$route}}\"}{{end}}]");
}

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw cni::Error(cni::Code::kInvalidEnvironment, cat("preset: ", what), why);
}

// The pod CIDR is another's business.
void refuse_pod_cidr(const PresetOptions& options, const char* who) {
  if (!options.pod_cidrs.empty()) refuse("--pod-cidr does not fit", who);
  if (!options.node_json.empty()) refuse("--node-json does not fit", who);
}

std::string list_text(PresetOptions options) {
  PresetInput input;
  if (!options.except.empty()) {
    input.except = networks_from(options.except, "--masquerade-except");
  }
  if (options.name == "flannel") {
    refuse_pod_cidr(options, "flanneld has it in subnet.env");
    if (!options.subnet_env.empty()) complete_subnet_env(options.subnet_env);
    input.mtu = mtu_from(options, 0, false);
    Json list = list_of(options, input);
    if (!options.subnet_env.empty() && options.subnet_env != cni::kSubnetEnv) {
      list["plugins"][0]["subnetFile"] = options.subnet_env;
    }
    return list.dump(4) + '\n';
  }
  if (options.name == "containerd-template") {
    refuse_pod_cidr(options, "containerd has it from the kubelet");
    if (!options.subnet_env.empty()) refuse("--subnet-env does not fit", "use the preset flannel");
    if (options.mtu.empty()) options.mtu = "auto";
    input.mtu = mtu_from(options, 0, false);
    return containerd_template(input, options);
  }
  input.pod_cidrs = pod_cidrs_from(options);
  unsigned fallback = 0;
  if (!options.subnet_env.empty()) fallback = *complete_subnet_env(options.subnet_env).mtu;
  if (options.mtu.empty() && fallback == 0) options.mtu = "auto";
  input.mtu = mtu_from(options, fallback, has(input.pod_cidrs, Family::kIpv6));
  return list_of(options, input).dump(4) + '\n';
}

}  // namespace

void preset(const PresetOptions& options, const Output& output) {
  const std::string text = list_text(options);
  if (options.file.empty()) {
    output.out << text;
    return;
  }
  const std::filesystem::path path(options.file);
  const std::string folder = path.has_parent_path() ? path.parent_path().string() : ".";
  const auto dir = cni::Dir::open(folder);
  if (!dir) refuse(cat("open ", folder, ": no such file or directory"), "--output");
  dir->replace(path.filename(), text, cat(".", path.filename().string(), ".new"));
}

}  // namespace tool
