#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcni/common/dir.h"
#include "plugins/dhcp/protocol/client.h"

/// What the daemon knows of the leases, in a file per attachment, so that another daemon process
/// goes on with them. Times count from the boot, and so does what a file says: that of another boot
/// is worth nothing, since no pod outlives it.
namespace dhcp {

struct State {
  std::string network, container_id, ifname;
  std::string netns = {};    ///< the path; empty: unknown
  std::uint64_t cookie = 0;  ///< RouteSocket::cookie() of it; 0: the kernel does not say
  int link = 0;              ///< index of the interface in it
  Identity identity = {};
  unsigned priority = 0;            ///< metric of the routes
  bool dns = false;                 ///< whether results have it
  std::optional<Lease> lease = {};  ///< absent: it was lost, and another one is asked for
  bool operator==(const State&) const = default;

  std::string file_name() const;
  /// "ID/NETWORK/IFNAME", for messages.
  std::string name() const;
};

/// The result that the lease is.
cni::Result result_of(const State& state);

/// Of this boot; empty where it is unreadable.
std::string boot_id();
std::string text_of(const State& state, const std::string& boot_id);
/// Nothing for another content, and for that of another boot.
std::optional<State> state_from(const std::string& text, const std::string& boot_id);

/// The files of all attachments.
class StateDir {
 public:
  /// Makes the directory. \throws netlink::Error.
  static StateDir create(const std::string& path);

  /// Removes files of other boots, and those that are torn.
  std::vector<State> take_all() const;
  void put(const State& state) const;
  void remove(const std::string& file) const;

 private:
  explicit StateDir(cni::Dir dir);
  cni::Dir dir_;
  std::string boot_id_;
};

}  // namespace dhcp
