#include "plugins/tuning/state.h"

#include <algorithm>

#include "plugins/common/state/fields.h"
#include "plugins/tuning/sysctls.h"

namespace tuning {

namespace {

// What the reference plugin has no keys for.
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

using tuning::Content;
using tuning::LinkSettings;
using tuning::Ours;
using tuning::Sysctl;

template <>
inline constexpr auto kFields<LinkSettings> =
    std::tuple{Field{"mac", &LinkSettings::mac}, Field{"promisc", &LinkSettings::promiscuous},
               Field{"mtu", &LinkSettings::mtu}, Field{"allmulti", &LinkSettings::all_multicast},
               Field{"txQLen", &LinkSettings::tx_queue_length}};
template <>
inline constexpr auto kFields<Sysctl> =
    std::tuple{Field{"key", &Sysctl::key}, Field{"value", &Sysctl::value}};
template <>
inline constexpr auto kFields<Ours> = std::tuple{
    Field{"", &Ours::owner}, Field{"hostMTU", &Ours::host_mtu}, Field{"sysctls", &Ours::sysctls}};
template <>
inline constexpr auto kFields<Content> =
    std::tuple{Field{"", &Content::link}, Field{"patchbay", &Content::ours}};

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
