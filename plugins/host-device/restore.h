#pragma once

#include "netlink/route/socket.h"
#include "plugins/host-device/conf.h"
#include "plugins/host-device/state.h"

/// The way of a device back to the node. Ownership is proven by what a pod cannot write: the kind,
/// the permanent MAC address and the hardware below; of virtual links by index, kind and other end,
/// in the namespace that ADD moved them to.
namespace host_device {

/// The link that is the state's device. host_nsid: how the pod's namespace numbers the node's;
/// absent where the links are the node's own.
std::optional<netlink::Link> recognise(const std::vector<netlink::Link>& links, const State& state,
                                       std::optional<int> host_nsid);

/// The device in the namespace of its pod. Nothing where it is not there.
std::optional<netlink::Link> find_in_pod(netlink::RouteSocket& pod, const State& state);

enum class ReturnResult {
  kRestored,
  kVanished,     ///< a virtual link: it went with its namespace
  kUnreachable,  ///< hardware in a namespace that has no path: the kernel returns it when that ends
};
/// Brings the device back from netns, from the path of ADD or from whatever name it has on the
/// node, and restores it. \throws cni::Error where another link of the node has its name;
/// netlink::Error.
ReturnResult give_back(netlink::RouteSocket& host, const State& state, const std::string& netns);

/// The same by the attachment's state file, which is removed. False where it has none.
bool give_back(const cni::Request& request);

/// For an attachment without state file, as the reference plugin leaves it: brings the interface
/// CNI_IFNAME back if it is hardware that the config selects, under the name in its alias. A
/// virtual link stays: nothing tells it from what a pod made.
void give_back_hardware(const cni::Request& request);

/// The states whose device is on the node: of an ADD or DEL that was killed, or of a pod whose
/// namespace ended. Under the lock, when no other call is between state file and device.
std::vector<State> stale(netlink::RouteSocket& host, const StateDir& states);
/// Restores the device of one of these and removes its state file.
void reclaim(netlink::RouteSocket& host, const StateDir& states, const State& state);
/// The same of all; what fails is noted on stderr.
void reclaim(netlink::RouteSocket& host, const StateDir& states);

/// Undo step of ADD.
struct GiveBack {
  cni::Request request;
  void operator()() const { give_back(request); }
  std::string describe() const { return "return the device to the node"; }
};

}  // namespace host_device
