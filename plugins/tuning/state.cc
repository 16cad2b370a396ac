#include "plugins/tuning/state.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "libcni/config/json.h"
#include "plugins/tuning/sysctls.h"

namespace tuning {

namespace {

using cni::cat;
using cni::Reader;
using nlohmann::json;

constexpr std::int64_t kMost32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t kMost64 = std::numeric_limits<std::int64_t>::max();
constexpr const char* kOurs = "patchbay";

std::string aside_of(const std::string& file) { return cat(file, ".new"); }

std::string string_at(const Reader& place, const char* key) {
  const Reader value = place[key];
  return value.present() ? value.as_string() : std::string();
}

std::optional<unsigned> number_at(const Reader& place, const char* key) {
  const Reader value = place[key];
  if (!value.present()) return std::nullopt;
  return static_cast<unsigned>(value.as_int(0, kMost32));
}

std::optional<bool> bool_at(const Reader& place, const char* key) {
  const Reader value = place[key];
  if (!value.present()) return std::nullopt;
  return value.as_bool();
}

LinkSettings link_from(const Reader& root) {
  return {.mac = netlink::Mac::parse(string_at(root, "mac")),
          .promiscuous = bool_at(root, "promisc"),
          .mtu = number_at(root, "mtu"),
          .all_multicast = bool_at(root, "allmulti"),
          .tx_queue_length = number_at(root, "txQLen"),
          .host_mtu = number_at(root[kOurs], "hostMTU")};
}

json json_of(const LinkSettings& link) {
  json out = json::object();
  if (link.mac) out["mac"] = link.mac->str();
  if (link.promiscuous) out["promisc"] = *link.promiscuous;
  if (link.mtu) out["mtu"] = *link.mtu;
  if (link.all_multicast) out["allmulti"] = *link.all_multicast;
  if (link.tx_queue_length) out["txQLen"] = *link.tx_queue_length;
  return out;
}

std::vector<Sysctl> sysctls_from(const Reader& place) {
  std::vector<Sysctl> out;
  for (const Reader& one : place.elements()) {
    Sysctl sysctl{one["key"].as_string(), one["value"].as_string()};
    if (!complaint_about(cat("net/", sysctl.key)).empty()) one.fail("not a key below net");
    out.push_back(std::move(sysctl));
  }
  return out;
}

}  // namespace

std::string text_of(const State& state) {
  json out = json_of(state.link);
  json ours{{"network", state.network},
            {"containerID", state.container_id},
            {"ifname", state.ifname},
            {"netns", state.netns},
            {"netnsCookie", state.cookie}};
  if (state.link.host_mtu) ours["hostMTU"] = *state.link.host_mtu;
  for (const Sysctl& one : state.sysctls) {
    ours["sysctls"].push_back({{"key", one.key}, {"value", one.value}});
  }
  out[kOurs] = std::move(ours);
  return out.dump(1, ' ', false, json::error_handler_t::replace);
}

std::optional<State> state_from(const std::string& text) try {
  const nlohmann::json doc = cni::parse_json(text, "it");
  const Reader root(doc);
  State out{.link = link_from(root)};
  const Reader ours = root[kOurs];
  if (!ours.present()) return out;
  out.network = ours["network"].as_string();
  out.container_id = ours["containerID"].as_string();
  out.ifname = ours["ifname"].as_string();
  out.netns = ours["netns"].as_string();
  out.cookie = static_cast<std::uint64_t>(ours["netnsCookie"].as_int(0, kMost64));
  out.sysctls = sysctls_from(ours["sysctls"]);
  return out;
} catch (const cni::Error&) {
  return std::nullopt;
}

StateFiles state_files_of(const cni::Request& request) {
  const std::string attachment = cat(request.container_id, "_", request.ifname);
  return {.link = cat(attachment, ".json"), .sysctls = cat(attachment, ".sysctl.json")};
}

std::optional<State> read_state(const cni::Dir& dir, const std::string& file) {
  const auto found = dir.read(file);
  return found ? state_from(found->content) : std::nullopt;
}

void write_state(const cni::Dir& dir, const std::string& file, const std::string& text) {
  const std::string aside = aside_of(file);
  if (!dir.publish(file, text, aside)) dir.replace(file, text, aside);
}

void RestoreFile::operator()() const {
  const auto found = cni::Dir::open(dir);
  if (!found) return;
  found->remove(aside_of(file));  // of a process that was killed
  if (content) return write_state(*found, file, *content);
  found->remove(file);
}

}  // namespace tuning
