#include "plugins/vrf/state.h"

#include "libcni/common/hash.h"
#include "plugins/common/state/fields.h"

namespace plugins {

using vrf::Ipv6State;
using vrf::State;

template <>
inline constexpr auto kFields<Ipv6State> =
    std::tuple{Field{"keepAddrOnDown", &Ipv6State::keep_addr_on_down},
               Field{"acceptDad", &Ipv6State::accept_dad}};

template <>
inline constexpr auto kFields<State> = std::tuple{Field{"", &State::owner},
                                                  Field{"vrf", &State::vrf},
                                                  Field{"table", &State::table},
                                                  Field{"index", &State::index},
                                                  Field{"routes", &State::routes},
                                                  Field{"ipv6", &State::ipv6},
                                                  Field{"keepsVRF", &State::keeps_vrf}};

}  // namespace plugins

namespace vrf {

std::string State::file_of(const plugins::StateOwner& owner) {
  return cni::OwnerTag("", owner.container_id, owner.ifname).instance_hash;
}

std::string State::text() const { return plugins::json_text(*this); }

std::optional<State> State::from(const std::string& text) {
  auto out = plugins::from_json_text<State>(text);
  if (out && (out->table == 0 || out->index <= 0)) out.reset();
  return out;
}

}  // namespace vrf
