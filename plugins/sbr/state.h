#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libcni/common/dir.h"
#include "libcni/plugin/request.h"
#include "netlink/types/ip.h"

/// What ADD made in a pod's namespace: a file per attachment on the node, written before the first
/// change and removed by DEL, so that DEL needs neither prevResult nor the interface, and changes
/// no other pod that has the path of the namespace by then.
namespace sbr {

struct State {
  std::string network, container_id, ifname;
  std::string netns;                        ///< CNI_NETNS
  std::uint64_t cookie = 0;                 ///< RouteSocket::cookie() of it; 0: unknown
  std::vector<netlink::Ip> addresses = {};  ///< that have a rule
  /// Where the routes of each address were moved to; none with `table`.
  std::vector<std::uint32_t> tables = {};
  bool operator==(const State&) const = default;

  std::string file_name() const;
  bool is_of(std::uint64_t pod_cookie) const;
};

std::string text_of(const State& state);
/// Nothing for another content.
std::optional<State> state_from(const std::string& text);

/// The files of all attachments, and a lock.
class StateDir {
 public:
  static std::optional<StateDir> find();
  static StateDir create();

  /// Held while tables are chosen and routes moved. \throws cni::Error(kTryAgainLater).
  netlink::Fd lock() const;
  std::optional<State> read(const std::string& file) const;
  std::vector<State> all() const;
  void put(const State& state) const;
  void remove(const std::string& file) const;

 private:
  explicit StateDir(cni::Dir dir) : dir_(std::move(dir)) {}
  cni::Dir dir_;
};

std::string file_of(const cni::Request& request);

}  // namespace sbr
