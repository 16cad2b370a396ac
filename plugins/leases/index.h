#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/common/dir.h"
#include "plugins/leases/cursor.h"
#include "plugins/leases/host.h"
#include "plugins/state/lease.h"

namespace leases {

using cni::Dir;

/// The owner of this container's records that name no interface.
inline Owner bare(const Owner& owner) { return {owner.container_id, {}}; }

/// When and where an entry was made.
enum class Origin {
  kThisBoot,   ///< by this machine, in this boot: its container may live
  kEarlier,    ///< by this machine, before its last boot: its container is no more
  kElsewhere,  ///< by another machine, or it is not known where: its container may live
  kUntold      ///< by a release that noted no machines: as if nothing was noted
};

/// Finds an owner's addresses, and their boot, without reading every reservation.
///
/// In the store's directory, `.owners/<boot id>/<hash>.<n>` is a symbolic link to
/// `../../<address>`; hash is the first 32 hexadecimal digits of the SHA-512 of the owner's record.
/// A link is made before the reservation and removed after it: it may point at nothing or at
/// another owner's address, so a hit is a hint to be checked. The reference reads through a link,
/// takes it for a reservation of the owner, and removes it on DEL together with the reservation:
/// both can work on one directory. Changes need the store's lock.
/// `.owners/<boot id>.of.<machine>`, an empty directory, tells whose boot it was: machines that
/// share a store take no other's boot for an earlier one of their own.
///
/// The reference's reservations have no entry. The symbolic link `.owners/seen` tells whether there
/// may be such a reservation: its target is the boot and the times when the store's directory and
/// that of the boot were changed, as they were when all was noted. The times differ as soon as
/// anybody else has reserved or freed an address, removed a note, or was killed amid that.
/// Kernels stamp changes with the time of their last tick (up to 10 ms ago), so a change in the
/// same tick would leave the time as it was; therefore the time is set by hand, to the nanosecond,
/// before it is noted. Where that is refused, or the file system cuts the time to seconds, what
/// the reference does in that span after us goes unnoticed until the next change: ADD does not see
/// the duplicate, DEL finds the address by prevResult or not at all.
class OwnerIndex {
 public:
  struct Entry {
    std::string boot, name;
    Ip ip;
  };

  /// dir is the store's; both belong to the caller, who must keep them.
  OwnerIndex(const Dir& dir, const Host& host) : dir_(dir), host_(host) {}

  /// The entries of the owners, in this boot and in earlier ones.
  std::vector<Entry> find(std::initializer_list<Owner> owners) const;
  std::vector<Entry> find(const Owner& owner) const { return find({owner}); }
  /// Everything, sorted by address.
  std::vector<Entry> all() const;
  /// The entries for one address among those that all() gave.
  static std::span<const Entry> of(const std::vector<Entry>& all, const Ip& ip);
  /// By boot, of all boots that have entries.
  using Origins = std::map<std::string, Origin>;
  Origins origins() const;
  static Origin origin_in(const Origins& origins, const Entry& entry);
  Origin origin_of(const Entry& entry) const;
  /// Whether another machine has noted something here.
  bool is_shared() const;
  /// Whether all that is here can be told to be this machine's.
  bool is_own() const { return host_.machine() != kUnknownMachine && !is_shared(); }
  /// Whether the entry is one of owner's.
  static bool is_of(const Entry& entry, const Owner& owner);

  /// Empty: the file system has no symbolic links (vfat), so that reservations are found by reading
  /// them all.
  std::optional<Entry> add(const Owner& owner, const Ip& ip) const {
    return add_to(host_.boot_id, owner, ip);
  }
  /// The same for what was found, as of a boot.
  std::optional<Entry> adopt(const Owner& owner, const Ip& ip, std::string_view boot) const {
    return add_to(std::string(boot), owner, ip);
  }
  void remove(const Entry& entry) const;
  /// Notes the machine of this boot where a release of before has noted its entries without.
  void mark_machine() const;
  /// Removes the directories of earlier boots that have become empty; not those of other machines.
  void prune() const;

  /// Whether nothing was changed since mark_complete().
  bool is_complete() const;
  /// Keeps in mind that there is no reservation that is not noted. Makes no `.owners`.
  void mark_complete() const;
  /// Removes the marker that mark_complete(), killed, had not put in its place.
  void remove_left_over() const;

 private:
  std::optional<Entry> add_to(const std::string& boot, const Owner& owner, const Ip& ip) const;
  std::string marker() const;
  std::string seen_now(const Dir& owners) const;
  static void find_in(const Dir& boot_dir, const std::string& boot, const std::string& hash,
                      std::vector<Entry>& out);

  const Dir& dir_;
  const Host& host_;
};

}  // namespace leases
