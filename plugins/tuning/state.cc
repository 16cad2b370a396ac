#include "plugins/tuning/state.h"

#include <algorithm>

#include "plugins/state/fields.h"
#include "plugins/tuning/sysctls.h"

namespace tuning {

namespace {

// State for which the reference plugin has no keys.
struct Ours {
  plugins::StateOwner owner;
  std::optional<unsigned> host_mtu;
  std::vector<Sysctl> sysctls;
};

struct Content {
  LinkSettings link;
  std::optional<Ours> ours;
};

using SysctlStateDir = plugins::StateDir<SysctlState>;

void require_path(const Sysctl& one) {
  const std::string complaint = complaint_about(cni::cat("net/", one.key));
  if (!complaint.empty()) plugins::refuse_content(cni::cat("sysctl '", one.key, "': ", complaint));
}

// The first values of a sysctl are those of before any change.
void append_others(std::vector<Sysctl>& to, const std::vector<Sysctl>& from) {
  for (const Sysctl& one : from) {
    const bool is_known =
        std::ranges::any_of(to, [&](const Sysctl& other) { return other.key == one.key; });
    if (!is_known) to.push_back(one);
  }
}

}  // namespace

}  // namespace tuning

namespace plugins {

template <>
inline constexpr auto kFields<tuning::LinkSettings> = std::tuple{
    Field{"mac", &tuning::LinkSettings::mac}, Field{"promisc", &tuning::LinkSettings::promiscuous},
    Field{"mtu", &tuning::LinkSettings::mtu},
    Field{"allmulti", &tuning::LinkSettings::all_multicast},
    Field{"txQLen", &tuning::LinkSettings::tx_queue_length}};
template <>
inline constexpr auto kFields<tuning::Sysctl> =
    std::tuple{Field{"key", &tuning::Sysctl::key}, Field{"value", &tuning::Sysctl::value}};
template <>
inline constexpr auto kFields<tuning::Ours> =
    std::tuple{Field{"", &tuning::Ours::owner}, Field{"hostMTU", &tuning::Ours::host_mtu},
               Field{"sysctls", &tuning::Ours::sysctls}};
template <>
inline constexpr auto kFields<tuning::Content> =
    std::tuple{Field{"", &tuning::Content::link}, Field{"patchbay", &tuning::Content::ours}};

}  // namespace plugins

namespace tuning {

std::string State::file_of(const plugins::StateOwner& owner) {
  return cni::cat(owner.key.container_id, "_", owner.key.ifname, ".json");
}

std::string State::text() const {
  return plugins::json_text(Content{link, Ours{owner, host_mtu, sysctls}});
}

std::optional<State> State::from(const std::string& text) {
  const auto content = plugins::from_json_text<Content>(text);
  if (!content) return std::nullopt;
  State out{.link = content->link};
  if (!content->ours) return out;
  out.owner = content->ours->owner;
  out.host_mtu = content->ours->host_mtu;
  out.sysctls = content->ours->sysctls;
  std::ranges::for_each(out.sysctls, require_path);
  return out;
}

std::string SysctlState::file_of(const plugins::StateOwner& owner) {
  return cni::cat(owner.key.container_id, "_", owner.key.ifname, ".sysctl.json");
}

std::optional<SysctlState> SysctlState::from(const std::string& text) {
  auto state = State::from(text);
  return state ? std::optional(SysctlState{*std::move(state)}) : std::nullopt;
}

std::optional<State> read_state(const StateDir& states, const plugins::StateOwner& owner) {
  auto out = states.read(owner);
  if (out && out->owner.key.container_id.empty()) out->owner = owner;
  const auto dir = SysctlStateDir::find(states.path());
  const auto sysctls = dir ? dir->read(owner) : std::nullopt;
  if (!sysctls) return out;
  if (!out) return *sysctls;
  if (out->owner.is_in(sysctls->owner.cookie)) {
    auto first = sysctls->sysctls;
    append_others(first, out->sysctls);
    out->sysctls = std::move(first);
  }
  return out;
}

std::vector<plugins::StateOwner> taken_by(cni::Collect& collect, const StateDir& states) {
  std::vector<plugins::StateOwner> out;
  for (const State& one : states.taken_by(collect)) out.push_back(one.owner);
  const auto dir = SysctlStateDir::find(states.path());
  if (!dir) return out;
  for (const State& one : dir->taken_by(collect)) {
    if (std::ranges::find(out, one.owner) == out.end()) out.push_back(one.owner);
  }
  return out;
}

void remove_state(const StateDir& states, const plugins::StateOwner& owner) {
  states.remove(owner);
  if (const auto dir = SysctlStateDir::find(states.path())) dir->remove(owner);
}

}  // namespace tuning
