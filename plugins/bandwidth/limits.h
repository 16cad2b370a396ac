#pragma once

#include <functional>
#include <optional>

#include "libcni/config/result.h"
#include "netlink/tc/ticks.h"
#include "plugins/bandwidth/conf.h"
#include "plugins/common/link/namespaces.h"

namespace bandwidth {

/// The objects of one call: config, namespaces, and the two interfaces.
struct Context {
  Conf conf;
  plugins::Namespaces sides;
  netlink::Link inside;                  ///< CNI_IFNAME, in the pod's namespace
  std::optional<netlink::Link> outside;  ///< the host veth; always set if the limits need it
  netlink::tc::Ticks ticks;
};

/// Finds both interfaces; result is the previous plugin's. \throws cni::Error if the limits need a
/// missing one.
Context context_for(const cni::Request& request, const Conf& conf, const cni::Result& result);

/// ADD: names the host veth in the result where the plugin before does not, so that CHECK and DEL
/// find it whatever the pod does to its interfaces.
void name_host_veth(const Context& context, cni::Result& result);

/// Sets the limits of the config, and removes others. Adds a created ifb device to result.
void set_limits(Context& context, cni::Result& result);

/// \throws cni::Error naming the first difference to what set_limits() sets.
void check_limits(Context& context);

/// Removes all limits of an attachment from all reachable interfaces, also those of half an ADD or
/// of another mode. \throws cni::Error listing what could not be removed.
void remove_limits(const cni::Request& request, const DelConf& conf);

/// Creates what ADD would create, in a new network namespace.
/// \throws cni::Error(kPluginUnavailable) naming what the kernel, or this build, lacks for the
/// config's mode and queue.
void try_limits(const Conf& conf);

/// Undo step of ADD. Borrows the request, which outlives the Undo.
struct RemoveLimits {
  std::reference_wrapper<const cni::Request> request;
  void operator()() const { remove_limits(request, DelConf{}); }
  std::string describe() const { return "remove the bandwidth limits"; }
};

}  // namespace bandwidth
