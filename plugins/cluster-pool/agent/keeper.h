#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libcni/daemon/event_loop.h"
#include "plugins/cluster-pool/agent/engine.h"
#include "plugins/cluster-pool/agent/pause.h"
#include "plugins/cluster-pool/agent/view.h"
#include "plugins/leases/store.h"
#include "plugins/state/blocks.h"

namespace block_agent {

/// Who claims: the node's name, and which machine it is.
struct Self {
  std::string node, machine;
};

/// The engine as lists and events said last, in a file, since an agent may be away meanwhile. Not
/// as answers of calls did: those may be later than a list that is under way.
struct Seen {
  std::string cluster = {};  ///< "": never
  std::map<Kind, std::uint64_t> revisions = {};
  bool is_settling = false;  ///< after a restore: Keeper::Times::settle is not over

  static Seen read(const blocks::Folder& folder);
  void write(const blocks::Folder& folder) const;
  void raise(const Object& object);
};

/// What happened since the start.
struct Totals {
  std::uint64_t claims = 0, conflicts = 0, returns = 0, errors = 0;
  bool is_engine_there = false;  ///< its objects were listed, and no call failed since
};

/// Of a network, for metrics.
struct Count {
  std::string network;
  std::size_t held = 0, returning = 0, lost = 0;
  std::uint64_t addresses = 0, leases = 0;  ///< of held blocks
};

/// Keeps what this node has of each network: claims blocks that the plugin wants, returns empty
/// ones, and finds out which of them are another's. Of one thread, which its calls of the engine
/// hold up.
///
/// What it saw in the engine may be late. So each decision about a block of this node (it is ours,
/// it is another's, it is claimed again) is the answer of a call that creates the object.
class Keeper {
 public:
  using Time = cni::BootTime;
  struct Times {
    Time idle, settle;
  };

  /// engine outlives it.
  Keeper(Self self, Times times, const Engine& engine, blocks::Folder folder);

  // What the engine has: Follower.
  void listed(Kind kind, Snapshot snapshot, Time now);
  void changed(const Object& object);
  void removed(const Object& object);
  void failed(const std::string& error);

  /// Does what can be done now, for all networks. Returns when to be called again at the latest.
  Time work(Time now);
  /// Reads the state of a network anew. Another program changed it, such as a tool for migration.
  void forget(const std::string& network) { networks_.erase(network); }

  const View& view() const { return view_; }
  const Totals& totals() const { return totals_; }
  std::vector<Count> counts() const;

 private:
  /// What is known of a network beside its file.
  struct Network {
    std::optional<blocks::Held> held = {};  ///< as the file; empty: no file yet
    bool is_written = true;                 ///< false: the file is behind, or unknown
    blocks::Pool pinned = {};               ///< whose subnets have pools in the engine
    std::map<netlink::Cidr, Time> empty_since = {};
    std::string shortage = {};  ///< claim of our shortage; "": none
    Time shortage_at{0};
    std::uint64_t written = 0;                      ///< View::changes() of the last NETWORK.nodes
    Time write_at{0};                               ///< not before
    std::map<std::string, Time> others_short = {};  ///< claims of shortages, when first seen
    Time look_at{0};                                ///< when to look at leases again
    bool is_blind = false;                          ///< their folder is not there, as was logged
  };

  Network& load(const std::string& network);
  Time work_on(const std::string& network, Time now);
  void put(Network& of);
  void complain(const std::string& network, const std::exception& e);
  void note(Network& of, const std::string& text);
  std::optional<leases::Store> store_of(const blocks::Held& held) const;
  Object object_of(const blocks::Held& held, const blocks::Block& block) const;

  // keeper_blocks.cc: whose the blocks are.
  void check_blocks(Network& of);
  bool check(Network& of, blocks::Block& block);
  bool take_back(Network& of, blocks::Block& block, const Object& from, Object& mine);
  void lose(Network& of, blocks::Block& block, const Object& holder);
  bool finish_return(Network& of, const blocks::Block& block);
  void adopt(Network& of);
  std::string twin_of(const std::string& network) const;

  // keeper_claims.cc: what the plugin wants.
  bool serve(Network& of, const blocks::Want& want, Time now);
  void require_node();
  void take_pool(Network& of, const blocks::Want& want);
  std::optional<leases::Store> leave(const blocks::Held& held, const std::string& data_dir) const;
  void pin(const blocks::Held& held, const blocks::Range& range);
  bool claim(Network& of, const netlink::Cidr& cidr);
  bool claim_next(Network& of, std::size_t set, Time now);
  bool claim_fixed(Network& of, const netlink::Ip& ip, std::string& others);
  bool is_full(const Network& of, std::size_t set) const;
  void call_for_blocks(Network& of, Time now);
  void end_shortage(Network& of);

  // keeper_returns.cc: what is not needed any more.
  Time return_idle(Network& of, Time now);
  Time look_later(Network& of, Time now) const;
  bool are_others_short(Network& of, Time now);
  bool may_return(const Network& of, const blocks::Block& block,
                  const std::vector<netlink::Ip>& used, bool is_called_for) const;
  void give_back(Network& of, const netlink::Cidr& cidr);
  Time write_nodes(const std::string& network, Network& of, Time now);

  const Self self_;
  const Times times_;
  const Engine& engine_;
  const blocks::Folder folder_;
  View view_;
  std::map<std::string, Network> networks_;
  Seen seen_;
  Time settled_at_{0};     ///< no claims before
  bool has_node_ = false;  ///< the engine, an object for this node
  Pauses pauses_;
  std::string error_;   ///< of the engine; "": it answers
  std::string logged_;  ///< the last error
  Totals totals_;
};

}  // namespace block_agent
