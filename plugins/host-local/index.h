#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/host-local/dir.h"
#include "plugins/host-local/range.h"

namespace host_local {

/// Who holds an address: one interface of one container.
struct Owner {
  std::string id, ifname;  ///< ifname is empty for a record of before interface names were kept

  /// The content of the reservation: ID CR LF IFNAME, as the reference writes it on every system.
  std::string record() const { return id + "\r\n" + ifname; }
  /// Nothing where content is neither a record nor a bare container ID.
  static std::optional<Owner> parse(std::string_view content);
  /// "'ID' 'IFNAME'".
  std::string str() const;
  bool operator==(const Owner&) const = default;
};

/// Stands for the boot where the system does not tell its ID; nothing is ever older than it.
inline constexpr std::string_view kUnknownBoot = "unknown";

/// Text without the white space around it.
std::string_view trimmed(std::string_view text);

/// The address that a file of this name reserves; nothing for any other file.
std::optional<Ip> ip_of(const std::string& file_name);

/// Which addresses an owner holds, without reading every reservation, and since which boot.
///
/// In the store's directory, `.owners/<boot id>/<hash>.<n>` is a symbolic link to
/// `../../<address>`; hash is the first 32 hexadecimal digits of the SHA-512 of the owner's record.
/// A link is made before the reservation and removed after it: it may point at nothing or at
/// another owner's address, so a hit is a hint to be checked. The reference reads through a link,
/// takes it for a reservation of the owner, and removes it on DEL together with the reservation:
/// both can work on one directory. Changes need the store's lock.
class OwnerIndex {
 public:
  struct Entry {
    std::string boot, name;
    Ip ip;
  };

  /// dir is the store's; both belong to the caller, who must keep them.
  OwnerIndex(const Dir& dir, const std::string& boot_id);

  /// What was noted for the owner, in this boot and in earlier ones.
  std::vector<Entry> find(const Owner& owner) const;
  /// Everything, sorted by address.
  std::vector<Entry> all() const;
  /// The entries for one address among those that all() gave.
  static std::span<const Entry> of(const std::vector<Entry>& all, const Ip& ip);
  /// Whether the entry was made before the last boot, hence by a container that is no more.
  bool is_old(const Entry& entry) const;
  /// Whether the entry is one of owner's.
  static bool is_of(const Entry& entry, const Owner& owner);

  Entry add(const Owner& owner, const Ip& ip) const;
  void remove(const Entry& entry) const;
  /// Removes the directories of earlier boots that have become empty.
  void prune() const;

 private:
  static void find_in(const Dir& boot_dir, const std::string& boot, const std::string& hash,
                      std::vector<Entry>& out);

  const Dir& dir_;
  const std::string& boot_id_;
};

}  // namespace host_local
