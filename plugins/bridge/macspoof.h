#pragma once

#include <string>
#include <vector>

#include "netlink/nf/batch.h"
#include "netlink/types/mac.h"

namespace netlink::nf {
class NfSocket;
}

/// macspoofchk: frames from a pod pass only with the pod's own MAC address. Table bridge nat,
/// with names and comments of the reference plugin, so that each plugin removes what the other one
/// added. Everything acts on the network namespace that the thread is in.
namespace bridge {

/// Adds or replaces the rules in one transaction; repeating it changes nothing.
/// \throws cni::Error(kInvalidConfig) if container_id is too long for the name of a chain.
void add_macspoof(const std::string& container_id, const std::string& ifname,
                  const std::string& host_veth, const netlink::Mac& mac);

/// Removes what exists of it; nothing is no error. \throws netlink::Error.
void remove_macspoof(netlink::nf::NfSocket& socket, const std::string& container_id,
                     const std::string& ifname);

/// Removes the rules of links that do not exist, in all networks, because the rules name none.
void gc_macspoof();

/// \throws cni::Error unless frames from host_veth are checked.
void check_macspoof(const std::string& container_id, const std::string& ifname,
                    const std::string& host_veth);

/// The state before add_macspoof().
struct MacspoofState {
  bool has_prerouting = false;                     ///< the shared chain
  bool has_chains = false;                         ///< the attachment's
  std::vector<netlink::nf::Rule> prerouting = {};  ///< its rules in the shared chain
};
/// The changes that add_macspoof() sends.
netlink::nf::Batch plan_macspoof(const MacspoofState& seen, const std::string& id,
                                 const std::string& host_veth, const netlink::Mac& mac);

/// Undo step of add_macspoof().
struct RemoveMacspoof {
  std::string container_id, ifname;
  void operator()() const;
  std::string describe() const;
};

}  // namespace bridge
