#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plugins/cluster-pool/agent/keeper.h"
#include "tests/unit/block_agent/memory_engine.h"
#include "tests/unit/surroundings.h"

namespace block_agent {

using blocks::State;
using netlink::Cidr;
using netlink::Ip;
using std::chrono::seconds;
using Time = Keeper::Time;

inline constexpr Keeper::Times kTimes{seconds(600), seconds(60)};

inline Ip ip(const char* text) { return *Ip::parse(text); }

inline blocks::Range range_of(const char* subnet, unsigned size) {
  const Cidr cidr = *Cidr::parse(subnet);
  const Ip first = *cidr.ip.next();
  Ip last = cidr.ip.broadcast(cidr.prefix);
  if (cidr.ip.is_v4()) last = *last.prev();
  return {.subnet = cidr, .start = first, .end = last, .gateway = first, .block_size = size};
}

/// A node: its folder and leases are of a directory of this test.
struct Node {
  Node(Memory& memory, std::string name, std::string machine = "",
       const char* subnet = "10.5.0.0/26", unsigned size = 28)
      : engine(engine_of(memory)),
        self{name, machine.empty() ? "machine-of-" + name : machine},
        pool{.sets = {{range_of(subnet, size)}}, .data_dir = folder.path() + "/networks"} {
    std::filesystem::create_directories(pool.data_dir + "/net");  // as ADD does
    start();
  }
  /// As after kill -9 and a new start.
  void start() {
    keeper.emplace(self, kTimes, engine, blocks::Folder::create(folder.path() + "/blocks"));
  }
  blocks::Folder files() const { return blocks::Folder::create(folder.path() + "/blocks"); }
  void want(std::uint64_t held = 0, std::vector<Ip> fixed = {}) {
    files().ask({.network = "net", .pool = pool, .fixed = std::move(fixed), .sets = {{0, held}}});
  }
  std::set<std::string> held(State state = State::kHeld) const {
    std::set<std::string> out;
    const auto file = files().held("net");
    if (!file) return out;
    for (const blocks::Block& one : file->blocks) {
      if (one.state == state) out.insert(one.cidr.str());
    }
    return out;
  }
  std::string note() const { return files().held("net").value_or(blocks::Held{}).note; }
  void lease(const std::string& address) {
    std::filesystem::create_directories(pool.data_dir + "/net");
    std::ofstream(pool.data_dir + "/net/" + address) << std::string(64, 'a') + "\r\neth0";
  }
  void release(const std::string& address) {
    std::filesystem::remove(pool.data_dir + "/net/" + address);
  }

  surroundings::Folder folder;
  Engine engine;
  Self self;
  blocks::Pool pool;
  std::optional<Keeper> keeper;
};

/// What an engine has: "10.5.0.0/28 of n1".
inline std::set<std::string> claims_in(const Memory& memory) {
  std::set<std::string> out;
  for (const auto& [key, one] : memory.objects) {
    if (one.kind == Kind::kBlock) out.insert(one.cidr.str() + " of " + one.node);
  }
  return out;
}

/// Passes on what the engine has, and lets the node work.
inline Time turn(Memory& memory, Node& node, Time now = Time(0)) {
  show(memory, *node.keeper, now);
  return node.keeper->work(now);
}

}  // namespace block_agent
