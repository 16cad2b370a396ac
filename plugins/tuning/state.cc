#include "plugins/tuning/state.h"

#include <algorithm>

#include "plugins/common/state/fields.h"
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

bool is_path(const Sysctl& one) { return complaint_about(cni::cat("net/", one.key)).empty(); }

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
  return cni::cat(owner.container_id, "_", owner.ifname, ".json");
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
  if (!std::all_of(out.sysctls.begin(), out.sysctls.end(), is_path)) return std::nullopt;
  return out;
}

}  // namespace tuning
