#include "plugins/sbr/state.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "libcni/common/lock.h"
#include "libcni/config/conf.h"
#include "libcni/config/json.h"

namespace sbr {

namespace {

using cni::Reader;
using nlohmann::json;

constexpr const char* kPath = "/run/cni/sbr";
constexpr const char* kAside = ".new";
constexpr std::int64_t kMost32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t kMost64 = std::numeric_limits<std::int64_t>::max();

}  // namespace

std::string State::file_name() const {
  return cni::OwnerTag(network, container_id, ifname).prefix();
}

bool State::is_of(std::uint64_t pod_cookie) const {
  return cookie == 0 || pod_cookie == 0 || cookie == pod_cookie;
}

std::string text_of(const State& state) {
  json addresses = json::array();
  for (const auto& address : state.addresses) addresses.push_back(address.str());
  const json out{{"network", state.network},   {"containerID", state.container_id},
                 {"ifname", state.ifname},     {"netns", state.netns},
                 {"tables", state.tables},     {"addresses", std::move(addresses)},
                 {"netnsCookie", state.cookie}};
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<State> state_from(const std::string& text) try {
  const json doc = cni::parse_json(text, "it");
  const Reader root(doc);
  State out{.network = root["network"].as_string(),
            .container_id = root["containerID"].as_string(),
            .ifname = root["ifname"].as_string(),
            .netns = root["netns"].as_string()};
  out.cookie = static_cast<std::uint64_t>(root["netnsCookie"].as_int(0, kMost64));
  for (const Reader& one : root["addresses"].elements()) out.addresses.push_back(one.as_ip());
  for (const Reader& one : root["tables"].elements()) {
    out.tables.push_back(static_cast<std::uint32_t>(one.as_int(1, kMost32)));
  }
  return out;
} catch (const cni::Error&) {
  return std::nullopt;
}

std::optional<StateDir> StateDir::find() {
  auto dir = cni::Dir::open(kPath);
  if (!dir) return std::nullopt;
  return StateDir(std::move(*dir));
}

StateDir StateDir::create() { return StateDir(cni::Dir::create(kPath)); }

netlink::Fd StateDir::lock() const { return cni::take_lock(dir_); }

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

std::string file_of(const cni::Request& request) {
  return cni::OwnerTag(request.network, request.container_id, request.ifname).prefix();
}

}  // namespace sbr
