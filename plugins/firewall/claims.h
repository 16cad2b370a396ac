#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/common/dir.h"
#include "plugins/firewall/conf.h"

/// Owners of addresses in the backends `iptables` and `firewalld`, whose rules name no owner: a
/// symbolic link per address in /run/cni/firewall, which has the address as its name and leads to
/// "OWNER iptables" or "OWNER firewalld ZONE", a line per owner: pods of several networks may have
/// the same address. It is made before the rules and removed after them.
/// A file that is called as the owner lists its addresses, "ADDRESS ADDRESS ...", so that one
/// owner's are found without reading those of all pods. It is made before the links and removed
/// after them: it may list an address too much, of a call that was killed, and never one too few.
/// After them are handles of the rules in nf_tables, "ip:HANDLE" or "ip6:HANDLE", for CHECK: a
/// hint, as rules can be removed and added again.
namespace firewall {

struct AddressClaim {
  std::string owner;  ///< AttachmentKey::tag()
  Backend backend = Backend::kIptables;
  std::string zone = {};  ///< of firewalld
  bool operator==(const AddressClaim&) const = default;

  std::string text() const;
  /// Empty: another text.
  static std::optional<AddressClaim> from(std::string_view text);
};

/// An address and its claim.
struct ClaimedAddress {
  Ip ip;
  AddressClaim claim;
};

/// A rule of iptables-nft in the long chain of a family.
struct RuleHandle {
  Family family = Family::kIpv4;
  std::uint64_t handle = 0;
  bool operator==(const RuleHandle&) const = default;
};

class Claims {
 public:
  /// Empty: no ADD of these backends ran since the node started.
  static std::optional<Claims> find();
  static Claims create();

  /// \throws netlink::Error where nothing can be written.
  void require_writable() const;

  /// Calls that change claims or rules take turns. \throws as cni::take_lock().
  netlink::Fd lock() const;

  /// The claims of an address, that of the last ADD at the end.
  std::vector<AddressClaim> find(const Ip& ip) const;
  /// The addresses that an attachment has claimed: those of its list and, as that may be lost, of
  /// its own ones.
  std::vector<ClaimedAddress> of(const Attachment& attachment) const;
  std::vector<ClaimedAddress> all() const;
  /// Instead of an earlier claim of its owner.
  void put(const Ip& ip, const AddressClaim& claim) const;
  void remove(const Ip& ip, const std::string& owner) const;
  /// Handles of rules that were added for the owner. A failure to write them is noted: CHECK takes
  /// longer.
  void add_handles(const std::string& owner, const std::vector<RuleHandle>& added) const;
  std::vector<RuleHandle> handles_of(const std::string& owner) const;
  /// Whether there may be something of the attachment, be it of a call that was killed.
  bool may_have(const Attachment& attachment) const;
  /// Removes what a killed call left of an owner whose claims are removed.
  void remove_list(const std::string& owner) const;
  /// The owners with a list.
  std::vector<std::string> owners() const;

 private:
  explicit Claims(cni::Dir dir) : dir_(std::move(dir)) {}
  std::vector<Ip> listed(const std::string& owner) const;
  void write_list(const std::string& owner, const std::vector<Ip>& addresses) const;
  void strike(const std::string& owner, const Ip& ip) const;
  void write_claims(const Ip& ip, const std::vector<AddressClaim>& claims) const;
  cni::Dir dir_;
};

}  // namespace firewall
