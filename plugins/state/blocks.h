#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/common/dir.h"
#include "libcni/common/lock.h"
#include "netlink/types/ip.h"
#include "plugins/names/blocks.h"
#include "plugins/state/pool.h"

/// Which blocks of a pool this node has: what the plugin cluster-pool and patchbay-agent write for
/// one another in names::kBlocksDir. `NETWORK.json` and `NETWORK.nodes` are the agent's, and
/// `NETWORK.want` is the plugin's. Each is written aside and renamed. A torn file is unknown: it
/// never says that the node has no blocks.
namespace blocks {

/// ADD allocates in held blocks alone. A block becomes returning or lost under the lock of the
/// network's leases (leases::Store), so that no ADD allocates in it meanwhile.
class State {
 public:
  enum Value : std::uint8_t {
    kHeld,
    kReturning,  ///< it had no lease, and the engine is asked to delete its claim
    kLost,       ///< another node has it; the leases that are in it stay until their DEL
  };
  constexpr State(Value value) : value_(value) {}  // NOLINT(google-explicit-constructor)
  constexpr State() = default;
  bool operator==(const State&) const = default;

  /// "held", "returning", "lost".
  std::string str() const;
  static std::optional<State> parse(std::string_view text);

 private:
  Value value_ = kHeld;
};

struct Block {
  netlink::Cidr cidr;
  std::string claim = {};  ///< the UUID of this claim, as the engine has it
  State state = {};
  std::string holder = {};  ///< of a lost one: the node that has it
  bool operator==(const Block&) const = default;
};

/// `NETWORK.json`: ADD reads it, so it has this node's blocks alone.
struct Held {
  std::string network, node;
  Pool pool = {};  ///< of the claims: another one than the config's is asked for by a Want
  std::vector<Block> blocks = {};
  std::string note = {};   ///< why there is no next block, for the error of ADD; empty: nothing is
  std::int64_t noted = 0;  ///< Unix time of the note
  bool operator==(const Held&) const = default;

  std::string text() const;
  /// Empty: torn. \throws cni::Error: plugins::from_json_text().
  static std::optional<Held> from(const std::string& text);
};

/// "node 'n2'". What has a block in place of a node, as "an unreadable object", has a blank.
std::string holder_text(const std::string& holder);
bool is_node(const std::string& holder);

/// `NETWORK.nodes`: what the agent saw in the engine, for errors of ADD and for cnitool.
struct Nodes {
  struct Node {
    std::string name;
    std::vector<netlink::Cidr> blocks = {};
    bool operator==(const Node&) const = default;
  };
  std::int64_t at = 0;  ///< Unix time
  std::vector<Node> nodes = {};
  bool operator==(const Nodes&) const = default;

  /// The node that has the address; empty: unknown.
  std::string node_with(const netlink::Ip& ip) const;
  std::string text() const;
  static std::optional<Nodes> from(const std::string& text);
};

/// `NETWORK.want`: what the plugin asks the agent for. It is written where NETWORK.json does not
/// exist or has another pool, where a set's held blocks are 3/4 full, and for fixed addresses.
struct Want {
  /// A set whose held blocks are 3/4 full or full.
  struct Short {
    std::uint64_t set = 0;     ///< index in Pool::sets
    std::uint64_t blocks = 0;  ///< held ones that it had then: with more of them the want is met
    bool operator==(const Short&) const = default;
  };
  std::string network;
  Pool pool = {};
  std::vector<netlink::Ip> fixed =
      {};  ///< addresses that ADD was asked for; the node lacks the block
  std::vector<Short> sets = {};
  std::int64_t since = 0;  ///< Unix time of the first of its requests
  bool operator==(const Want&) const = default;

  std::string text() const;
  static std::optional<Want> from(const std::string& text);
};

/// Bytes of a network's name, of which the files here have the names: 255 (NAME_MAX) less those of
/// ".NETWORK.nodes.new".
inline constexpr std::size_t kMaxNetworkName = 244;

/// names::kBlocksDir, or another folder in tests.
class Folder {
 public:
  /// nullopt if it does not exist: neither the plugin nor the agent has worked here.
  static std::optional<Folder> find(const std::string& path = names::kBlocksDir);
  static Folder create(const std::string& path = names::kBlocksDir);
  const std::string& path() const { return dir_.path(); }
  const cni::Dir& dir() const { return dir_; }

  /// Networks of which there is a file, sorted.
  std::vector<std::string> networks() const;
  /// Whether the agent has ever written of the network.
  bool has_held(const std::string& network) const;

  /// nullopt: no file, or a torn one. \throws cni::Error for one of a later format, or of another
  /// network.
  std::optional<Held> held(const std::string& network) const;
  std::optional<Nodes> nodes(const std::string& network) const;
  std::optional<Want> want(const std::string& network) const;

  /// To the disk (fsync): claims that a power loss forgets would be claimed again. By the agent.
  void put(const Held& held) const;
  /// Not to the disk. By the agent.
  void put(const std::string& network, const Nodes& nodes) const;
  /// Removes what the agent has written of the network, and its want.
  void remove(const std::string& network) const;

  /// Adds to the network's want, and to the sets and addresses of an earlier one of the same pool.
  /// False: it says nothing new, and no file is written. By the plugin.
  /// \param deadline of the lock, which an ADD may hold that was stopped.
  bool ask(const Want& want, std::chrono::milliseconds deadline = cni::kLockDeadline) const;
  /// Removes a want that the agent has served. False: the plugin has added to it since.
  bool served(const Want& want, std::chrono::milliseconds deadline = cni::kLockDeadline) const;

 private:
  explicit Folder(cni::Dir dir) : dir_(std::move(dir)) {}
  cni::Dir dir_;
};

}  // namespace blocks
