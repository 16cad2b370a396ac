#pragma once

#include <optional>
#include <string>

#include "libcni/common/undo.h"
#include "libcni/plugin/request.h"
#include "netlink/route/socket.h"
#include "plugins/tuning/conf.h"
#include "plugins/tuning/state.h"

/// The pod as it is and as the config wants it, and the way from one to the other and back.
namespace tuning {

/// The objects of one call.
struct TunedPod {
  /// \throws cni::Error: kInvalidNetNs; where this process lacks the rights.
  explicit TunedPod(const cni::Request& of);

  const cni::Request& request;
  netlink::NetNs ns;
  netlink::RouteSocket socket;
  std::optional<netlink::RouteSocket> host = {};  ///< opened where the host veth is looked for

  /// The interface CNI_IFNAME. \throws cni::Error where there is none.
  netlink::Link interface();
  /// Its host veth, if it has one that is no other attachment's.
  std::optional<netlink::Link> host_veth(const netlink::Link& inside);
};

/// Sets the sysctls in their order; what they were is in the attachment's file before, and each is
/// undone. \throws cni::Error; netlink::Error.
void set_sysctls(TunedPod& pod, const Conf& conf, cni::Undo& undo);
/// The same of the interface and its host veth, and the node learns a new MAC address. result:
/// prevResult.
void set_link(TunedPod& pod, const Conf& conf, const cni::Result& result, cni::Undo& undo);

/// \throws cni::Error naming the first sysctl or setting that is another one than the config's.
void check_sysctls(TunedPod& pod, const Conf& conf);
void check_link(TunedPod& pod, const Conf& conf);

/// Restores what the attachment's state file says, and removes it. What the kernel refuses is noted
/// on stderr. \throws cni::Error for other failures; the file stays for the next DEL.
void restore(const cni::Request& request, const StateDir& states);

}  // namespace tuning
