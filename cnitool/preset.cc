#include "cnitool/preset.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cnitool/preset_input.h"
#include "libcni/common/dir.h"
#include "plugins/names/state.h"

namespace tool {

namespace {

using Json = nlohmann::ordered_json;
using netlink::Cidr;
using netlink::Family;

bool has(const std::vector<Cidr>& all, Family family) {
  return std::ranges::any_of(all, [&](const Cidr& one) { return one.ip.family() == family; });
}

Json texts(const std::vector<Cidr>& all) {
  Json out = Json::array();
  for (const Cidr& one : all) out.push_back(one.str());
  return out;
}

// One set of addresses for each pod CIDR, and a default route for its family.
Json ipam_of(const std::vector<Cidr>& pod_cidrs) {
  Json ranges = Json::array(), routes = Json::array();
  for (const Cidr& one : pod_cidrs) {
    ranges.push_back(Json::array({{{"subnet", one.str()}}}));
    routes.push_back({{"dst", one.ip.is_v4() ? "0.0.0.0/0" : "::/0"}});
  }
  return {{"type", "host-local"}, {"ranges", ranges}, {"routes", routes}};
}

void put_masquerading(const std::vector<Cidr>& except, Json& plugin) {
  plugin["ipMasq"] = !except.empty();
  if (!except.empty()) plugin["ipMasqExcept"] = texts(except);
}

Json bridge_of(const PresetInput& input) {
  Json out = {{"type", "bridge"}, {"bridge", "cbr0"}};
  if (input.mtu != 0) out["mtu"] = input.mtu;
  out.update({{"isGateway", true}, {"isDefaultGateway", true}, {"forceAddress", true}});
  put_masquerading(input.except, out);
  out["hairpinMode"] = true;
  out["ipam"] = ipam_of(input.pod_cidrs);
  return out;
}

// As kindnetd writes it. Its leases are lost with the node's container, as its pods are.
Json ptp_of(const PresetInput& input) {
  Json out = {{"type", "ptp"}};
  if (input.mtu != 0) out["mtu"] = input.mtu;
  put_masquerading(input.except, out);
  out["ipam"] = ipam_of(input.pod_cidrs);
  out["ipam"]["dataDir"] = names::kKindDataDir;
  return out;
}

// As k3s writes it.
Json flannel_of(const PresetInput& input, const std::string& subnet_env) {
  Json delegate = {{"hairpinMode", true}, {"forceAddress", true}, {"isDefaultGateway", true}};
  if (input.mtu != 0) delegate["mtu"] = input.mtu;
  if (!input.except.empty()) put_masquerading(input.except, delegate);
  Json out = {{"type", "flannel"}};
  if (!subnet_env.empty() && subnet_env != cni::kSubnetEnv) out["subnetFile"] = subnet_env;
  out["delegate"] = delegate;
  return out;
}

Json conflist_of(const std::string& name, const PresetOptions& options, const Json& interface) {
  Json plugins = Json::array({interface});
  if (options.devices) plugins.push_back({{"type", "devices"}});
  plugins.push_back({{"type", "portmap"}, {"capabilities", {{"portMappings", true}}}});
  plugins.push_back({{"type", "bandwidth"}, {"capabilities", {{"bandwidth", true}}}});
  return {{"cniVersion", options.version}, {"name", name}, {"plugins", plugins}};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

// Go's text/template; containerd has .PodCIDRRanges and .Routes for it.
std::string containerd_template(const PresetInput& input, const PresetOptions& options) {
  constexpr const char *kRanges = "\"@ranges@\"", *kRoutes = "\"@routes@\"";
  Json plugin = bridge_of(input);
  plugin["ipam"] = {{"type", "host-local"}, {"ranges", "@ranges@"}, {"routes", "@routes@"}};
  std::string text = conflist_of("kubenet", options, plugin).dump(4) + '\n';
  text = replaced(text, kRanges,
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
    return conflist_of("cbr0", options, flannel_of(input, options.subnet_env)).dump(4) + '\n';
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
  const bool is_kind = options.name == "kind";
  return conflist_of(is_kind ? "kindnet" : "kubenet", options,
                     is_kind ? ptp_of(input) : bridge_of(input))
             .dump(4) +
         '\n';
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
