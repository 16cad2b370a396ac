#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcni/common/dir.h"
#include "libcni/common/lock.h"
#include "plugins/devices/ledger/entry.h"
#include "plugins/names/state.h"

/// The folder of the entries. A file is named by the ID of its device. It is written aside, fsynced
/// and renamed, so that it is either the earlier or the later one after a kill or a power loss.
/// Names that begin with a dot are no devices: the lock, files that are being written, and a mark
/// for each attachment that has devices.
namespace devices {

class Ledger {
 public:
  /// nullopt if the folder does not exist: patchbay-agent has never run on this node.
  static std::optional<Ledger> find(const std::string& path = names::kDevicesLedgerDir);
  static Ledger create(const std::string& path = names::kDevicesLedgerDir);

  const std::string& path() const { return dir_.path(); }
  /// Another one after each change of an entry.
  std::string changed() const { return dir_.changed(); }
  /// Whoever changes an entry reads it again under the lock. \throws cni::Error(kTryAgainLater).
  netlink::Fd lock(std::chrono::milliseconds deadline = cni::kLockDeadline) const;

  /// nullopt without a file, and for a torn one, which is noted. \throws cni::Error for a file of a
  /// later format.
  std::optional<Entry> read(const std::string& id) const;
  /// Sorted by resource and ID. Torn ones and those of a later format are noted and left out.
  std::vector<Entry> all() const;
  /// Writes it to the disk. Under the lock.
  void put(const Entry& entry) const;
  /// The same, but a power loss may restore the earlier one: it costs no fsync.
  void put_unsynced(const Entry& entry) const;
  /// put(), or remove() if it is free. Under the lock.
  void put_or_remove(const Entry& entry) const;
  /// Under the lock.
  void remove(const std::string& id) const;
  /// Removes torn files, and files that were being written when a process was killed. Under the
  /// lock. Returns the names of the torn ones.
  std::vector<std::string> sweep() const;

  /// The mark of an attachment is made before the first of its devices gets a holder, and removed
  /// after the last one: DEL of a pod without devices looks at one name.
  bool has_mark(const plugins::StateOwner& owner) const;
  void put_mark(const plugins::StateOwner& owner) const;
  void remove_mark(const plugins::StateOwner& owner) const;

 private:
  explicit Ledger(cni::Dir dir) : dir_(std::move(dir)) {}
  cni::Dir dir_;
};

}  // namespace devices
