#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "libcni/config/result.h"
#include "libcni/plugin/collect.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"
#include "plugins/devices/ledger/ledger.h"

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

}  // namespace devices
