#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "libcni/config/result.h"
#include "libcni/plugin/collect.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"
#include "netlink/netns.h"
#include "netlink/route/socket.h"
#include "plugins/state/ledger.h"

/// The delegates of a device. They are called as a runtime calls the plugins of a network: in
/// order, for DEL in reverse, each with the result of the one before. The network is that of the
/// resource (names::devices_network()), the interface and the namespace are the holder's.
namespace devices {

class Delegates {
 public:
  /// chain: the call that this plugin got. The entry has a holder.
  Delegates(const cni::Request& chain, const Entry& entry);

  /// The result of the last one. \throws cni::Error: the delegate's own code and text.
  cni::Result add() const;
  /// Also after half an ADD, and twice.
  void del() const;
  void check() const;
  /// REPAIR, by CHECK of those that have none.
  void repair(cni::Repair& repair) const;

 private:
  struct Call;
  std::size_t size() const;
  void forward(std::size_t index, cni::Command command) const;
  Call call(std::size_t index, cni::Command command, const std::string& prev_result) const;

  const cni::Request& chain_;
  Entry entry_;
  cni::JsonValue configs_;  ///< a list
};

/// GC of the delegates of all resources in the ledger. An attachment is valid as long as an entry
/// has it as its holder, in whatever network of the chain. Under the lock of the ledger: an ADD
/// writes its holder before its first delegate takes anything.
void collect_delegates(const cni::Request& chain, const std::vector<Entry>& entries,
                       cni::Collect& collect);

/// Adds the interfaces, addresses and routes of a device to the result of the chain. DNS settings
/// are those of the pod's own network.
void append(cni::Result& result, const cni::Result& device);

/// The pod of an ADD. As long as it exists, no other ADD attaches devices to the pod: it would take
/// this one for killed, and their delegates have one state. The kernel frees the lock of a process
/// that is killed.
class Sandbox {
 public:
  /// Detaches what an ADD of this attachment that was killed has left: it would have the names of
  /// this one's interfaces. \param chain the result of the plugins before. \param started
  /// nanoseconds of CLOCK_MONOTONIC. \throws cni::Error(kTryAgainLater) beside another ADD. The
  /// request and the ledger outlive it.
  Sandbox(const cni::Request& request, const Ledger& ledger, const cni::Result& chain,
          std::int64_t started);

  /// Writes the attachment as the holder of the entry's device, before the first delegate takes
  /// something of it, and the entry's pod, whose UID the ledger may not have. A holder whose
  /// namespace does not exist any more, one of an earlier sandbox of the pod, and one of the same
  /// attachment whose ADD was interrupted, is detached first. Returns the entry with its holder,
  /// whose interface has the pool's name, or the prefix and the next free number.
  /// \throws cni::Error where somebody else has the device, or it is another pod's by now.
  Entry hold(const Entry& entry, const std::string& prefix);
  /// ADD of the delegates, and the end of the holder's file.
  cni::Result attach(const Entry& held) const;

 private:
  std::string name_for(const Entry& entry, const std::string& prefix);
  std::optional<Entry> try_hold(const Entry& entry, const Holder& holder) const;

  const cni::Request& request_;
  const Ledger& ledger_;
  const netlink::NetNs pod_;
  netlink::RouteSocket links_;
  std::set<std::string> names_;  ///< that interfaces of the pod have
  const StateOwner owner_;
  const std::int64_t started_;
  const netlink::Fd lock_;
};

/// DEL of the delegates, and then removes the holder. Nothing if it is another's by now.
void let_go(const cni::Request& request, const Ledger& ledger, const Entry& held);

}  // namespace devices
