#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcni/common/dir.h"
#include "libcni/common/lock.h"
#include "plugins/names/state.h"
#include "plugins/state/ledger_entry.h"

/// The folder of the entries: a file with the ID of the device as its name, which patchbay-agent
/// writes, and ".held=ID", which the plugin writes. They are written aside and renamed, so that
/// each is either the earlier or the later one after a kill; the result of ADD is appended. Other
/// names that begin with a dot are the locks, files that are being written, and a mark for each
/// attachment that has devices.
///
/// After a power loss the kubelet starts the same pods from its checkpoint, without another
/// Allocate. So a promise is fsynced: without patchbay-agent nothing else says that a pod needs a
/// device. Claims, ADD and DEL do not fsync what they write. A promise may then be torn
/// (Entry::Promise); a torn holder is none, and the namespace of another does not exist.
namespace devices {

class Ledger {
 public:
  /// nullopt if the folder does not exist: patchbay-agent has never run on this node.
  static std::optional<Ledger> find(const std::string& path = names::kDevicesLedgerDir);
  static Ledger create(const std::string& path = names::kDevicesLedgerDir);
  /// All that is in the folder, by look(), without notes; none without a folder.
  static std::vector<Entry> shown(const std::string& path);

  const std::string& path() const { return dir_.path(); }
  bool is_removed() const { return dir_.is_removed(); }
  /// An entry is read again under the lock before it is changed. \throws
  /// cni::Error(kTryAgainLater).
  netlink::Fd lock(std::chrono::milliseconds deadline = cni::kLockDeadline) const;
  /// Locks one pod, whose devices are about to be attached; without waiting. \throws
  /// cni::Error(kTryAgainLater).
  netlink::Fd lock_pod(const std::string& pod) const;

  /// nullopt without files, and for torn ones, which are noted. A holder whose promise is lost is
  /// an entry without a pod. \throws cni::Error for a file of a later format.
  std::optional<Entry> read(const std::string& id) const;
  /// The same as far as the files are readable, and what of them is not; notes say why.
  std::optional<Entry> look(const std::string& id) const;
  /// Each by look(), sorted by resource and ID.
  std::vector<Entry> all() const;
  /// The ID of the device whose promise or holder has the name; nothing for other names.
  static std::optional<std::string> device_of(const std::string& name);
  /// Writes all but the holder, to the disk. Under the lock.
  void put(const Entry& entry) const;
  /// The same without fsync(2): a power loss may restore the earlier one, or tear it.
  void put_unsynced(const Entry& entry) const;
  /// Under the lock. The device has no holder.
  void remove(const std::string& id) const;

  /// Before the first delegate takes something of the device. Under the lock.
  void put_holder(const std::string& id, const Holder& holder) const;
  /// Stores what ADD returned. Under the lock, and the holder is there.
  void add_result(const std::string& id, const std::string& result) const;
  /// And the entry, if that frees the device. Under the lock.
  void remove_holder(const std::string& id) const;

  /// Removes torn holders, and files that were being written when a process was killed. Under the
  /// lock. Returns the names of the former.
  std::vector<std::string> sweep() const;

  /// The mark of an attachment has the IDs of its devices, a line each, so that DEL does not read
  /// the entries of all others: of a pod without devices it looks at one name.
  bool has_mark(const StateOwner& owner) const;
  /// Adds a device, before the attachment becomes its holder. Under the lock.
  void put_mark(const StateOwner& owner, const std::string& id) const;
  /// Removes the mark, unless a device has the attachment as its holder. Under the lock.
  void remove_idle_mark(const StateOwner& owner) const;
  /// The entries whose holder is the attachment, by its mark. \throws cni::Error where one more may
  /// be, because its file is of a later format.
  std::vector<Entry> held_by(const StateOwner& owner) const;

 private:
  explicit Ledger(cni::Dir dir) : dir_(std::move(dir)) {}
  std::optional<Entry> promise_of(const std::string& id) const;
  std::optional<Holder> holder_of(const std::string& id) const;
  std::vector<Entry> entries_of(const std::vector<std::string>& names) const;
  std::vector<std::string> marked(const StateOwner& owner) const;

  cni::Dir dir_;
  bool is_noting_ = true;
};

}  // namespace devices
