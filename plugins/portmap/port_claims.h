#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/portmap/attachment.h"

namespace portmap {

/// Claims of the iptables backend: symbolic links from keys to tags in the directory "claims"
/// beside the state files. Without it they were lost, or no ADD of this boot has looked for them
/// yet.
class PortClaims {
 public:
  explicit PortClaims(const StateDir& states) : dir_(states.dir()) {}

  bool exist() const;
  /// Makes the directory, with all of these at once; without any, put() makes it.
  void make(const std::vector<std::pair<Key, Owner>>& all) const;
  /// The tag of the port owner; empty without one.
  Tag claimant(const Key& key) const;
  void put(const Key& key, const Owner& owner) const;
  /// False if another attachment owns the key; its claim stays.
  bool release(const Key& key, const Tag& owner) const;
  /// Releases all claims whose tag is stale: lists the directory.
  void release_if(const std::function<bool(const Tag& tag)>& is_stale) const;
  /// Removes what a process that was killed has left.
  void tidy() const;

 private:
  const cni::Dir& dir_;
};

}  // namespace portmap
