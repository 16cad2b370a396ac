#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "libcni/common/error.h"
#include "plugins/cluster-pool/agent/engine.h"
#include "plugins/cluster-pool/agent/keeper.h"

/// An engine in memory, which several keepers share. A keeper sees changes when the test passes
/// them on.
namespace block_agent {

struct Memory {
  std::map<std::string, Object> objects = {};
  std::vector<Object> removals = {};       ///< with the versions of them
  std::map<std::string, bool> nodes = {};  ///< Node objects
  std::uint64_t revision = 10;
  std::string cluster = "one";
  bool is_away = false;
  bool loses_answers = false;  ///< creates a block, and fails all the same
  int calls = 0;
  int most_at_once = 0;                          ///< calls that were under way together
  std::function<void(const Object&)> slow = {};  ///< how long a creation takes

  void answer() {
    ++calls;
    if (is_away) throw cni::Error(cni::Code::kTryAgainLater, "connect to 'memory': refused");
  }
  std::optional<Object> create(Object& object) {
    answer();
    const auto found = objects.find(key_of(object));
    if (found != objects.end()) return found->second;
    object.version = ++revision;
    objects[key_of(object)] = object;
    if (loses_answers && object.kind == Kind::kBlock)
      throw cni::Error(cni::Code::kTryAgainLater, "read from 'memory': timed out");
    return std::nullopt;
  }
  bool replace(const Object& from, Object& to) {
    answer();
    const auto found = objects.find(key_of(from));
    if (found == objects.end() || !found->second.is_claim_of(from)) return false;
    to.version = ++revision;
    found->second = to;
    return true;
  }
  Removal remove(const Object& object) {
    answer();
    const auto found = objects.find(key_of(object));
    if (found == objects.end()) return Removal::kGone;
    if (!found->second.is_claim_of(object)) return Removal::kOther;
    removals.push_back(found->second);
    removals.back().version = ++revision;
    objects.erase(found);
    return Removal::kRemoved;
  }
  std::vector<Object> list(Kind kind) {
    answer();
    std::vector<Object> out;
    for (const auto& [key, one] : objects) {
      if (one.kind == kind) out.push_back(one);
    }
    return out;
  }
};

/// Creations that are under way.
struct Calls {
  std::mutex mutex;
  int count = 0;
};

/// \param knows_nodes as Kubernetes does.
inline Engine engine_of(Memory& memory, bool knows_nodes = false) {
  const auto under_way = std::make_shared<Calls>();
  Engine out{.create =
                 [&memory, under_way](Object& object) {
                   std::unique_lock hold(under_way->mutex);
                   memory.most_at_once = std::max(memory.most_at_once, ++under_way->count);
                   if (memory.slow) {
                     hold.unlock();
                     memory.slow(object);
                     hold.lock();
                   }
                   --under_way->count;
                   return memory.create(object);
                 },
             .replace = [&](const Object& from, Object& to) { return memory.replace(from, to); },
             .remove = [&](const Object& object) { return memory.remove(object); },
             .list = [&](Kind kind) { return memory.list(kind); },
             .has_node = {},
             .follow = [](const Follower&) {},
             .stop = [] {},
             .name = "memory"};
  if (knows_nodes) {
    out.has_node = [&](const std::string& node) {
      memory.answer();
      return memory.nodes[node];
    };
  }
  return out;
}

/// As after events of removals that are not forgotten, and a list.
inline void show(Memory& memory, Keeper& keeper, Keeper::Time now = Keeper::Time(0)) {
  for (const Object& one : memory.removals) {
    if (one.version <= memory.revision) keeper.removed(one);
  }
  for (const Kind kind : {Kind::kBlock, Kind::kShortage}) {
    Snapshot all{.objects = {}, .cluster = memory.cluster, .revision = memory.revision};
    for (const auto& [key, one] : memory.objects) {
      if (one.kind == kind) all.objects.push_back(one);
    }
    keeper.listed(kind, std::move(all), now);
  }
}

}  // namespace block_agent
