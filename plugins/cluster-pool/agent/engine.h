#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plugins/cluster-pool/agent/object.h"

namespace block_agent {

/// All objects of a kind at one time.
struct Snapshot {
  std::deque<Object> objects = {};  ///< there may be very many
  std::string cluster = {};         ///< identity of the engine; "": it has none
  std::uint64_t revision = 0;       ///< grows with each change; 0: unknown
};

/// Called in threads of the engine.
struct Follower {
  std::function<void(Kind, Snapshot)> listed;  ///< replaces what was said of the kind before
  std::function<void(const Object&)> changed;  ///< was created
  std::function<void(const Object&)> removed;  ///< with the version of its removal
  std::function<void(const std::string& error)> failed;  ///< it is tried again, after a pause
};

enum class Removal : std::uint8_t {
  kRemoved,
  kGone,   ///< it did not exist
  kOther,  ///< another claim has the name
};

/// Where the objects are. Each function throws cni::Error: kTryAgainLater if the same may succeed
/// later, in which case a change may have been made or not. All calls have deadlines.
struct Engine {
  /// Creates the object. Empty: it is created, and its version is in `version`. Else the object
  /// that has the name; its node is "" if it is not readable.
  std::function<std::optional<Object>(Object& object)> create;
  /// Puts `to` in the place of `from`, which has the same name, if it still is that claim, in one
  /// step. False: it is not. For a node that was renamed: nothing else changes an object.
  std::function<bool(const Object& from, Object& to)> replace;
  /// Removes the object if it still is that claim.
  std::function<Removal(const Object& object)> remove;
  /// Those of all networks, as they are now.
  std::function<std::vector<Object>(Kind kind)> list;
  /// Whether the engine has an object for the node itself. Null: it knows of no nodes.
  std::function<bool(const std::string& node)> has_node;
  /// Follows all blocks and shortages until stop(), in threads of its own.
  std::function<void(const Follower& follower)> follow;
  /// Ends all calls, and following. From any thread.
  std::function<void()> stop;
  std::string name = {};  ///< for notes: "etcd", "the API server"
  std::string at = {};    ///< for notes: the endpoints; "": not known
};

}  // namespace block_agent
