#include "plugins/host-device/state.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "libcni/common/lock.h"
#include "libcni/config/conf.h"
#include "libcni/config/json.h"
#include "libcni/config/names.h"
#include "plugins/host-device/settings.h"

namespace host_device {

namespace {

using cni::cat;
using cni::Reader;
using netlink::Link;
using netlink::LinkAddress;
using netlink::Mac;
using nlohmann::json;

constexpr const char* kAside = ".new";
constexpr std::int64_t kMostIndex = std::numeric_limits<int>::max();
constexpr std::int64_t kMost32 = std::numeric_limits<std::uint32_t>::max();

template <class T>
std::string text_or_empty(const std::optional<T>& value) {
  return value ? value->str() : std::string();
}

std::optional<Mac> mac_from(const Reader& place) {
  const std::string text = place.as_string();
  if (text.empty()) return std::nullopt;
  const auto mac = Mac::parse(text);
  if (!mac) place.fail("not a MAC address");
  return mac;
}

std::optional<netlink::Ip> ip_from(const Reader& place) {
  return place.as_string().empty() ? std::nullopt : std::optional(place.as_ip());
}

json to_json(const LinkAddress& one) {
  return {{"address", one.cidr.str()},
          {"peer", text_or_empty(one.peer)},
          {"broadcast", text_or_empty(one.broadcast)},
          {"label", one.label},
          {"scope", one.scope},
          {"flags", one.flags}};
}

// The XDP programs are in Device::programs.
struct Number {
  const char* key;
  std::uint32_t netlink::LinkSettings::*field;
};
constexpr Number kNumbers[] = {
    {"flags", &netlink::LinkSettings::flags},
    {"group", &netlink::LinkSettings::group},
    {"txQueueLength", &netlink::LinkSettings::tx_queue_length},
    {"gsoMaxSize", &netlink::LinkSettings::gso_max_size},
    {"gsoMaxSegments", &netlink::LinkSettings::gso_max_segments},
    {"groMaxSize", &netlink::LinkSettings::gro_max_size},
    {"gsoIPv4MaxSize", &netlink::LinkSettings::gso_ipv4_max_size},
    {"groIPv4MaxSize", &netlink::LinkSettings::gro_ipv4_max_size},
};

json to_json(const netlink::LinkSettings& one) {
  json out{{"mode", one.mode}, {"protoDown", one.proto_down}, {"altnames", one.altnames}};
  for (const Number& number : kNumbers) out[number.key] = one.*number.field;
  return out;
}

json to_json(const std::vector<Stacked>& links) {
  json out = json::array();
  for (const Stacked& one : links) out.push_back({{"netns", one.netns}, {"index", one.index}});
  return out;
}

LinkAddress address_from(const Reader& place) {
  LinkAddress out;
  out.cidr = place["address"].as_cidr();
  out.permanent = true;
  out.peer = ip_from(place["peer"]);
  out.broadcast = ip_from(place["broadcast"]);
  out.label = place["label"].as_string();
  out.scope = static_cast<std::uint8_t>(place["scope"].as_int(0, 255));
  out.flags = static_cast<std::uint32_t>(place["flags"].as_int(0, kMost32));
  return out;
}

json to_json(const Device& one) {
  json addresses = json::array();
  for (const LinkAddress& address : one.addresses) addresses.push_back(to_json(address));
  json out{{"name", one.name},
           {"index", one.index},
           {"kind", one.kind},
           {"mac", one.mac.str()},
           {"permanentMAC", text_or_empty(one.permanent_mac)},
           {"hardware", one.hardware},
           {"pci", one.pci},
           {"mtu", one.mtu},
           {"up", one.up},
           {"promiscuous", one.promiscuous},
           {"alias", one.alias},
           {"otherIndex", one.other_index},
           {"otherOnHost", one.other_on_host},
           {"addresses", std::move(addresses)},
           {"programs", one.programs}};
  if (one.settings) out["settings"] = to_json(*one.settings);
  if (one.stacked) out["stacked"] = to_json(*one.stacked);
  return out;
}

std::uint32_t number_from(const Reader& place) {
  return place.present() ? static_cast<std::uint32_t>(place.as_int(0, kMost32)) : 0;
}

netlink::LinkSettings settings_from(const Reader& place) {
  netlink::LinkSettings out;
  for (const Number& one : kNumbers) out.*one.field = number_from(place[one.key]);
  out.mode = static_cast<std::uint8_t>(place["mode"].as_int(0, 255));
  out.proto_down = place["protoDown"].as_bool();
  out.altnames = place["altnames"].as_strings();
  return out;
}

Stacked stacked_from(const Reader& place) {
  return {.netns = static_cast<std::uint64_t>(
              place["netns"].as_int(0, std::numeric_limits<std::int64_t>::max())),
          .index = static_cast<int>(place["index"].as_int(1, kMostIndex))};
}

// What older versions did not write.
void read_more(const Reader& place, Device& out) {
  for (const Reader& one : place["programs"].elements()) out.programs.push_back(number_from(one));
  if (const Reader settings = place["settings"]; settings.present()) {
    out.settings = settings_from(settings);
  }
  const Reader stacked = place["stacked"];
  if (!stacked.present()) return;
  out.stacked.emplace();
  for (const Reader& one : stacked.elements()) out.stacked->push_back(stacked_from(one));
}

Device device_from(const Reader& place) {
  Device out{.name = place["name"].as_string(),
             .index = static_cast<int>(place["index"].as_int(1, kMostIndex)),
             .kind = place["kind"].as_string(),
             .mac = mac_from(place["mac"]).value_or(Mac{}),
             .permanent_mac = mac_from(place["permanentMAC"]),
             .hardware = place["hardware"].as_string(),
             .pci = place["pci"].as_string(),
             .mtu = static_cast<unsigned>(place["mtu"].as_int(0, kMost32)),
             .up = place["up"].as_bool(),
             .promiscuous = place["promiscuous"].as_bool(),
             .alias = place["alias"].as_string(),
             .other_index = static_cast<int>(place["otherIndex"].as_int(0, kMostIndex)),
             .other_on_host = place["otherOnHost"].as_bool()};
  if (!cni::is_link_name(out.name)) place["name"].fail("not a link name");
  for (const Reader& one : place["addresses"].elements()) {
    out.addresses.push_back(address_from(one));
  }
  read_more(place, out);
  return out;
}

}  // namespace

std::string State::file_name() const {
  return cni::OwnerTag(network, container_id, ifname).prefix();
}

std::string State::owner() const {
  return cat("container '", container_id, "' (network '", network, "', interface '", ifname, "')");
}

Device device_of(netlink::RouteSocket& host, const Link& link) {
  const bool is_veth = link.peer_index != 0;
  Device out{.name = link.name,
             .index = link.index,
             .kind = link.kind,
             .mac = link.mac,
             .permanent_mac = link.permanent_mac,
             .hardware = link.device,
             .pci = pci_address_of(link.name),
             .mtu = link.mtu,
             .up = link.up,
             .promiscuous = link.promiscuous,
             .alias = link.alias,
             .other_index = is_veth ? link.peer_index : link.parent_index};
  out.settings = netlink::settings_of(host, link);
  out.programs = programs_of(link, *out.settings);
  out.stacked = stacked_on(link);
  out.other_on_host =
      out.other_index != 0 && !(is_veth ? link.peer_nsid : link.parent_nsid).has_value();
  for (LinkAddress& address : host.addresses(link)) {
    if (!address.permanent || address.cidr.ip.is_link_local()) continue;
    address.link = 0;
    address.tentative = address.dad_failed = false;
    out.addresses.push_back(std::move(address));
  }
  return out;
}

bool is_selected(const Conf& conf, const Selection& selection, const Device& device) {
  if (!conf.device.empty()) {
    if (device.name == conf.device || !device.settings) return device.name == conf.device;
    const auto& names = device.settings->altnames;
    return std::find(names.begin(), names.end(), conf.device) != names.end();
  }
  if (conf.mac) return device.mac == *conf.mac || device.permanent_mac == conf.mac;
  const std::string hardware = device.hardware.substr(device.hardware.rfind('/') + 1);
  if (!conf.kernel_path.empty()) {
    return conf.kernel_path.ends_with(cat("/", device.pci.empty() ? hardware : device.pci));
  }
  if (!selection.pci.empty()) return device.pci == selection.pci;
  return hardware == selection.auxiliary;
}

std::string text_of(const State& state) {
  return json{{"network", state.network},       {"containerID", state.container_id},
              {"ifname", state.ifname},         {"netns", state.netns},
              {"netnsCookie", state.cookie},    {"podIndex", state.pod_index},
              {"device", to_json(state.device)}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<State> state_from(const std::string& text) try {
  const json doc = cni::parse_json(text, "it");
  const Reader root(doc);
  return State{.network = root["network"].as_string(),
               .container_id = root["containerID"].as_string(),
               .ifname = root["ifname"].as_string(),
               .netns = root["netns"].as_string(),
               .cookie = static_cast<std::uint64_t>(
                   root["netnsCookie"].as_int(0, std::numeric_limits<std::int64_t>::max())),
               .pod_index = static_cast<int>(root["podIndex"].as_int(0, kMostIndex)),
               .device = device_from(root["device"])};
} catch (const cni::Error&) {
  return std::nullopt;
}

std::optional<StateDir> StateDir::find(const std::string& path) {
  auto dir = cni::Dir::open(path);
  if (!dir) return std::nullopt;
  return StateDir(std::move(*dir));
}

StateDir StateDir::create(const std::string& path) { return StateDir(cni::Dir::create(path)); }

netlink::Fd StateDir::lock() const { return cni::take_lock(dir_); }

std::string StateDir::file_of(const cni::Request& request) {
  return cni::OwnerTag(request.network, request.container_id, request.ifname).prefix();
}

std::optional<State> StateDir::read(const std::string& file) const {
  const auto found = dir_.read(file);
  return found ? state_from(found->content) : std::nullopt;
}

std::vector<State> StateDir::all() const {
  std::vector<State> out;
  for (const std::string& name : dir_.names()) {
    auto state = read(name);
    if (state && state->file_name() == name) out.push_back(*std::move(state));
  }
  return out;
}

void StateDir::put(const State& state) const {
  const std::string name = state.file_name();
  if (!dir_.publish(name, text_of(state), kAside)) dir_.replace(name, text_of(state), kAside);
}

void StateDir::remove(const std::string& file) const {
  dir_.remove(file);
  dir_.remove(kAside);  // of a process that was killed
}

}  // namespace host_device
