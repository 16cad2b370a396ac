#include "plugins/dhcp/daemon/state.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "libcni/common/hash.h"
#include "libcni/common/undo.h"
#include "libcni/config/conf.h"
#include "libcni/config/json.h"
#include "netlink/types/fd.h"

namespace dhcp {

namespace {

using cni::Reader;
using nlohmann::json;

constexpr const char* kAside = ".new";
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostIndex = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kMostBytes = 1024;

std::string hex(const Bytes& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 0x0f];
  }
  return out;
}

Bytes bytes_at(const Reader& place) {
  const std::string text = place.as_string();
  const auto digit = [&](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    place.fail("expected hexadecimal digits");
  };
  if (text.size() % 2 != 0 || text.size() > 2 * kMostBytes) place.fail("expected bytes");
  Bytes out;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    out.push_back(static_cast<std::uint8_t>(digit(text[i]) << 4 | digit(text[i + 1])));
  }
  return out;
}

// Milliseconds; null is never.
json time_json(Time time) { return time == kNever ? json() : json(time.count()); }

Time time_at(const Reader& place) {
  return place.present() ? Time(place.as_int(0, kMost)) : kNever;
}

cni::Result configuration_of(const Lease& lease) {
  return {.ips = {{.cidr = lease.address, .gateway = lease.gateway}},
          .routes = lease.routes,
          .dns = lease.dns};
}

json lease_json(const Lease& lease) {
  return {{"result", cni::to_json(configuration_of(lease), cni::kNewest)},
          {"mtu", lease.mtu},
          {"server", lease.server.str()},
          {"serverMac", lease.server_mac ? json(lease.server_mac->str()) : json()},
          {"renew", time_json(lease.renew)},
          {"rebind", time_json(lease.rebind)},
          {"expire", time_json(lease.expire)}};
}

Lease lease_at(const Reader& place) {
  const cni::Result result = cni::result_from(place["result"].json());
  if (result.ips.size() != 1 || !result.ips[0].cidr.ip.is_v4()) place.fail("expected an address");
  Lease out{.address = result.ips[0].cidr,
            .gateway = result.ips[0].gateway,
            .routes = result.routes,
            .dns = result.dns,
            .server = place["server"].as_ip()};
  place.into("mtu", out.mtu, 0, 65535);
  if (const Reader mac = place["serverMac"]; mac.present()) {
    out.server_mac = Mac::parse(mac.as_string());
  }
  out.renew = time_at(place["renew"]);
  out.rebind = time_at(place["rebind"]);
  out.expire = time_at(place["expire"]);
  const bool in_order = out.renew <= out.rebind && out.rebind <= out.expire;
  if (!out.server.is_v4() || !in_order) place.fail("expected a lease");
  return out;
}

json identity_json(const Identity& identity) {
  json provided = json::object();
  for (const auto& [code, value] : identity.provided) provided[std::to_string(code)] = hex(value);
  return {{"clientID", hex(identity.client_id)},
          {"provided", std::move(provided)},
          {"wanted", hex(identity.wanted)},
          {"broadcast", identity.broadcast},
          {"probe", identity.probe}};
}

Identity identity_at(const Reader& place) {
  Identity out{.client_id = bytes_at(place["clientID"]), .wanted = bytes_at(place["wanted"])};
  for (unsigned code = 1; code < option::kEnd; ++code) {
    const std::string key = std::to_string(code);
    if (const Reader value = place["provided"][key.c_str()]; value.present()) {
      out.provided[static_cast<std::uint8_t>(code)] = bytes_at(value);
    }
  }
  place.into("broadcast", out.broadcast);
  place.into("probe", out.probe);
  return out;
}

}  // namespace

std::string State::file_name() const {
  return cni::OwnerTag(network, container_id, ifname).prefix();
}

std::string State::name() const { return cni::cat(container_id, "/", network, "/", ifname); }

cni::Result result_of(const State& state) {
  if (!state.lease) return {};
  cni::Result out = configuration_of(*state.lease);
  if (!state.dns) out.dns = {};
  for (cni::Route& route : out.routes) {
    if (state.priority != 0) route.priority = state.priority;
  }
  return out;
}

std::string text_of(const State& state, const std::string& boot_id) {
  const json out{{"bootID", boot_id},
                 {"network", state.network},
                 {"containerID", state.container_id},
                 {"ifname", state.ifname},
                 {"netns", state.netns},
                 {"netnsCookie", state.cookie},
                 {"link", state.link},
                 {"identity", identity_json(state.identity)},
                 {"priority", state.priority},
                 {"dns", state.dns},
                 {"lease", state.lease ? lease_json(*state.lease) : json()}};
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<State> state_from(const std::string& text, const std::string& boot_id) try {
  const json doc = cni::parse_json(text, "it");
  const Reader root(doc);
  if (root["bootID"].as_string() != boot_id) return std::nullopt;
  State out{.network = root["network"].as_string(),
            .container_id = root["containerID"].as_string(),
            .ifname = root["ifname"].as_string(),
            .netns = root["netns"].as_string(),
            .identity = identity_at(root["identity"])};
  root.into("netnsCookie", out.cookie, 0, kMost);
  root.into("link", out.link, 1, kMostIndex);
  root.into("priority", out.priority, 0, std::numeric_limits<unsigned>::max());
  root.into("dns", out.dns);
  if (const Reader lease = root["lease"]; lease.present()) out.lease = lease_at(lease);
  return out;
} catch (const cni::Error&) {
  return std::nullopt;
}

std::string boot_id() {
  const auto text = netlink::read_file("/proc/sys/kernel/random/boot_id").value_or("");
  return text.substr(0, text.find('\n'));
}

StateDir::StateDir(cni::Dir dir) : dir_(std::move(dir)), boot_id_(boot_id()) {}

StateDir StateDir::create(const std::string& path) { return StateDir(cni::Dir::create(path)); }

std::vector<State> StateDir::take_all() const {
  std::vector<State> out;
  for (const std::string& name : dir_.names()) {
    const auto file = dir_.read(name);
    auto state = file ? state_from(file->content, boot_id_) : std::nullopt;
    if (state && state->file_name() == name) {
      out.push_back(*std::move(state));
    } else if (file) {
      cni::note(cni::cat("remove '", dir_.path(), "/", name,
                         "': it is of an earlier boot, or incomplete"));
      dir_.remove(name);
    }
  }
  return out;
}

void StateDir::put(const State& state) const {
  dir_.replace(state.file_name(), text_of(state, boot_id_), kAside);
}

void StateDir::remove(const std::string& file) const { dir_.remove(file); }

}  // namespace dhcp
