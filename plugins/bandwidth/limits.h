#pragma once

#include <functional>

#include "libcni/config/result.h"
#include "netlink/route/socket.h"
#include "netlink/tc/ticks.h"
#include "plugins/bandwidth/conf.h"

namespace bandwidth {

/// What one call works with: request, config, a socket in the node's and the pod's namespace, and
/// the two interfaces.
struct Context {
  const cni::Request& request;
  Conf conf;
  netlink::RouteSocket host, pod;
  netlink::Link inside;                  ///< CNI_IFNAME, in the pod's namespace
  std::optional<netlink::Link> outside;  ///< on the node; always there where it is needed
  netlink::tc::Ticks ticks;
};

/// Finds both ends; result is the previous plugin's. \throws cni::Error where one is missing that
/// the limits need.
Context context_for(const cni::Request& request, const Conf& conf, const cni::Result& result);

/// Sets the limits of the config, and removes those that it does not have. Where it makes a device
/// on the node it adds that to result.
void set_limits(Context& context, cni::Result& result);

/// \throws cni::Error naming the first difference to what set_limits() makes.
void check_limits(Context& context);

/// Removes all limits of an attachment, from wherever they can still be reached. Also what half an
/// ADD made, in another mode. \throws cni::Error listing what could not be removed.
void remove_limits(const cni::Request& request, const DelConf& conf);

/// Of an ADD that fails. The request is the caller's, who takes back.
struct RemoveLimits {
  std::reference_wrapper<const cni::Request> request;
  void operator()() const { remove_limits(request, DelConf{}); }
  std::string describe() const { return "remove the bandwidth limits"; }
};

}  // namespace bandwidth
