#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libcni/common/dir.h"
#include "plugins/firewall/conf.h"

/// Who has which address in the backends `iptables` and `firewalld`, whose rules name no owner: a
/// symbolic link per address in /run/cni/firewall, which is called as the address and leads to
/// "OWNER iptables" or "OWNER firewalld ZONE". It is made before the rules and removed after them.
namespace firewall {

struct Claim {
  std::string owner;  ///< Attachment::prefix()
  Backend backend = Backend::kIptables;
  std::string zone = {};  ///< of firewalld
  bool operator==(const Claim&) const = default;

  std::string text() const;
  /// Nothing for another text.
  static std::optional<Claim> from(const std::string& text);
};

/// An address and its claim.
struct ClaimedAddress {
  Ip ip;
  Claim claim;
};

class Claims {
 public:
  /// Nothing where no ADD of these backends was here since the node started.
  static std::optional<Claims> find();
  static Claims create();

  /// Calls that change claims or rules take turns. \throws as cni::take_lock().
  netlink::Fd lock() const;

  std::optional<Claim> find(const Ip& ip) const;
  std::vector<ClaimedAddress> all() const;
  void put(const Ip& ip, const Claim& claim) const;
  void remove(const Ip& ip) const;

 private:
  explicit Claims(cni::Dir dir) : dir_(std::move(dir)) {}
  cni::Dir dir_;
};

}  // namespace firewall
