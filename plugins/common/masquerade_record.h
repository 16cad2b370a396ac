#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcni/common/dir.h"
#include "libcni/plugin/request.h"
#include "plugins/common/masquerade.h"

namespace plugins::nft {

using Handles = std::vector<std::uint64_t>;

/// Where an attachment's rules are in chain masq_checks, so that DEL asks for these instead of
/// reading those of all pods: a symbolic link in /run/cni/masquerade from "H1-H2" (see
/// cni::OwnerTag) to the handles of the rules, "12,13". Like the rules it is gone after a reboot.
/// It has handles only where these are all rules that were added here for the attachment, and is
/// made after them; whoever uses it still compares the comments, as handles begin anew with the
/// table. For rules of iptables it has none, and says that there are rules. Without it, or where it
/// says nothing, the rules have to be listed: that it cannot be read or written (a read-only /run,
/// for ADD also a full one) is noted on stderr, and no error. What DEL and GC do throws
/// netlink::Error for other failures, which another try may not meet.
class MasqueradeRecord {
 public:
  static constexpr const char* kPath = "/run/cni/masquerade";

  /// With nothing in it where the directory does not exist.
  static MasqueradeRecord find(const Masquerade& masquerade);
  static MasqueradeRecord create(const Masquerade& masquerade);
  static bool exists(const Masquerade& masquerade);

  /// Before rules are added. False: there are, or may be, others of the attachment (of an ADD that
  /// no DEL followed), and from now on it says nothing; or it cannot be written.
  bool begin() const;
  /// After they were added, none of them missing.
  void keep(const Handles& handles) const;
  /// The same by who has listed all rules of the attachment.
  void replace(const Handles& handles) const;
  /// Empty: not known.
  Handles handles() const;
  /// After the rules were removed.
  void remove() const;

  /// Removes those of all attachments of the network but the valid ones. It lists the directory.
  static void collect(const std::string& network, const std::vector<cni::Attachment>& valid);

 private:
  MasqueradeRecord(std::optional<cni::Dir> dir, const Masquerade& masquerade);

  std::optional<cni::Dir> dir_;
  std::string name_;
};

}  // namespace plugins::nft
