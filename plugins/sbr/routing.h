#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/request.h"
#include "plugins/common/link/namespaces.h"
#include "plugins/sbr/state.h"

/// Rules and tables of a pod's network namespace.
namespace sbr {

struct Conf {
  std::optional<std::uint32_t> table = {};  ///< others fill it
  std::vector<cni::Ip> gateways = {};       ///< in place of prevResult's; one of a family
  bool add_source_hints = false;
};

/// The interface CNI_IFNAME. \throws cni::Error where the pod has none.
netlink::Link interface_of(plugins::Namespaces& sides);

/// The addresses of prevResult that are the interface's: those that no other one is named for;
/// with the gateways of the config, if it has some. \throws cni::Error where there is none.
std::vector<cni::Address> addresses_of(const cni::Request& request, const cni::Result& result,
                                       const Conf& conf);

/// Gives each address a rule. Without table they lead to tables that no rule and no route uses, to
/// which the interface's routes move from the main table; with add_source_hints those to its
/// subnets are there, too, with the address as source. What is there already stays.
/// \throws cni::Error; netlink::Error.
void set_routing(plugins::Namespaces& sides, const std::vector<cni::Address>& addresses,
                 const Conf& conf, cni::Undo& undo);

/// \throws cni::Error naming the first rule or route that is missing.
void check_routing(plugins::Namespaces& sides, const std::vector<cni::Address>& addresses,
                   const Conf& conf);

/// Removes from the main table what ADD added to it with add_source_hints.
void remove_hints(netlink::RouteSocket& pod, const std::vector<std::string>& hints);

/// Removes what the state says, and brings the routes back to the main table. \throws
/// netlink::Error.
void remove_routing(plugins::Namespaces& sides, const State& state);

/// Removes the rules that the reference plugin made for the addresses that the interface has now,
/// with is_own_too also those of this plugin.
void remove_stateless_rules(netlink::RouteSocket& pod, const netlink::Link& link,
                            std::optional<std::uint32_t> table, bool is_own_too);

}  // namespace sbr
