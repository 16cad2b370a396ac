#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugins/cluster-pool/agent/engine.h"

namespace block_agent {

/// What the engine was last seen to have. It may be behind: what matters is confirmed by a call.
class View {
 public:
  using Blocks = std::map<netlink::Ip, Object>;     ///< by their first address
  using Shortages = std::map<std::string, Object>;  ///< by the node

  /// After a list. Returns the blocks that it does not have, and no event had removed.
  std::vector<Object> replace(Kind kind, std::deque<Object> objects);
  /// A creation, by an event or a call. Nothing if something later is known.
  void put(Object object);
  /// A removal, by an event.
  void erase(const Object& object);
  /// A removal, by a call: nothing if another claim has its name by now, or the same again with a
  /// later version than the object's, which may be 0.
  void erase_claim(const Object& object);

  /// Whether blocks and shortages were listed.
  bool is_listed() const {
    return listed_.contains(Kind::kBlock) && listed_.contains(Kind::kShortage);
  }
  const Blocks& blocks(const std::string& network) const;
  const Shortages& shortages(const std::string& network) const;
  /// fn gets each object by which addresses of the network are taken.
  void each_taken(const std::string& network, auto&& fn) const {
    for (const auto& [first, one] : at(network).blocks) fn(one);
    for (const auto& [name, one] : at(network).misnamed) {
      if (around(at(network), one.cidr) == nullptr) fn(one);  // else the block's node has them
    }
  }
  /// The block of the network that shares an address with cidr; nullptr: none.
  const Object* overlapping(const std::string& network, const netlink::Cidr& cidr) const;
  /// The blocks of a node in all networks.
  std::vector<Object> blocks_of(const std::string& node) const;
  /// The nodes that have blocks.
  std::set<std::string> nodes() const;
  /// Grows with each change of the network.
  std::uint64_t changes(const std::string& network) const;

 private:
  struct Network {
    Blocks blocks;
    std::map<std::string, Object> misnamed;  ///< by name: no blocks, whose addresses are in doubt
    unsigned shortest = 128;                 ///< prefix length that a block of it has had
    Shortages shortages;
    std::uint64_t changes = 0;
    std::map<std::string, std::uint64_t> removed;  ///< versions of removed objects by key_of()
  };
  const Network& at(const std::string& network) const;
  /// The block that has all addresses of cidr.
  static const Object* around(const Network& network, const netlink::Cidr& cidr);

  std::map<std::string, Network> networks_;
  std::set<Kind> listed_;
};

}  // namespace block_agent
