#include "plugins/vrf/state.h"

#include "libcni/common/hash.h"
#include "plugins/state/fields.h"

namespace plugins {

template <>
inline constexpr auto kFields<vrf::Ipv6State> =
    std::tuple{Field{"keepAddrOnDown", &vrf::Ipv6State::keep_addr_on_down},
               Field{"acceptDad", &vrf::Ipv6State::accept_dad}};

template <>
inline constexpr auto kFields<vrf::State> = std::tuple{Field{"", &vrf::State::owner},
                                                       Field{"vrf", &vrf::State::vrf},
                                                       Field{"table", &vrf::State::table},
                                                       Field{"index", &vrf::State::index},
                                                       Field{"routes", &vrf::State::routes},
                                                       Field{"ipv6", &vrf::State::ipv6},
                                                       Field{"keepsVRF", &vrf::State::keeps_vrf}};

}  // namespace plugins

namespace vrf {

std::string State::file_of(const plugins::StateOwner& owner) {
  return cni::OwnerTag("", owner.key.container_id, owner.key.ifname).instance_hash;
}

std::string State::text() const { return plugins::json_text(*this); }

std::optional<State> State::from(const std::string& text) {
  auto out = plugins::from_json_text<State>(text);
  if (out && (out->table == 0 || out->index <= 0)) {
    plugins::refuse_content("expected a table and an index");
  }
  return out;
}

}  // namespace vrf
