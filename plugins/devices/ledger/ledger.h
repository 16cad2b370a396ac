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

/// The folder of the entries. A file is named by the ID of its device. It is written aside and
/// renamed, so that it is either the earlier or the later one after a kill. Names that begin with a
/// dot are no devices: the lock, files that are being written, and a mark for each attachment that
/// has devices.
///
/// After a power loss no namespace exists, all devices are the node's again, and the kubelet has
/// its checkpoint. It starts the same pods without another Allocate. So a promise is fsynced:
/// without patchbay-agent, nothing else says that a pod needs a device. Whatever ADD and DEL write
/// is not: the disk then has the promise, or a holder whose namespace does not exist (it is
/// detached first), or a torn file. A file system may make the last of a file that was renamed over
/// a synced one, and nobody knows whose device that is: ADD does not pass a pod before
/// patchbay-agent, which asks the kubelet, has answered (content().unreadable).
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
  struct Content {
    std::vector<Entry> entries;           ///< sorted by resource and ID
    std::vector<std::string> unreadable;  ///< files that are torn or of a later format; noted
  };
  Content content() const;
  std::vector<Entry> all() const { return content().entries; }
  /// Writes it to the disk: a promise. Under the lock.
  void put(const Entry& entry) const;
  /// The same without fsync(2): a power loss may restore the earlier one, or tear it.
  void put_unsynced(const Entry& entry) const;
  /// put(), or remove() if it is free. Under the lock.
  void put_or_remove(const Entry& entry) const;
  /// The same without fsync(2).
  void put_or_remove_unsynced(const Entry& entry) const;
  /// Under the lock.
  void remove(const std::string& id) const;
  /// Removes torn files, and files that were being written when a process was killed. Under the
  /// lock. Returns the names of the torn ones.
  std::vector<std::string> sweep() const;

  /// The mark of an attachment has the IDs of its devices, a line each, so that DEL does not read
  /// the entries of all others: of a pod without devices it looks at one name.
  bool has_mark(const StateOwner& owner) const;
  /// Adds a device, before the attachment becomes its holder. Under the lock.
  void put_mark(const StateOwner& owner, const std::string& id) const;
  /// Removes the mark, unless a device has the attachment as its holder. Under the lock.
  void remove_idle_mark(const StateOwner& owner) const;
  /// The entries whose holder is the attachment, by its mark.
  std::vector<Entry> held_by(const StateOwner& owner) const;

 private:
  explicit Ledger(cni::Dir dir) : dir_(std::move(dir)) {}
  Content entries_of(const std::vector<std::string>& names) const;
  bool remove_unsynced(const std::string& id) const;
  std::vector<std::string> marked(const StateOwner& owner) const;

  cni::Dir dir_;
};

}  // namespace devices
