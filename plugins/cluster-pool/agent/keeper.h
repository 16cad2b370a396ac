#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcni/daemon/event_loop.h"
#include "plugins/cluster-pool/agent/engine.h"
#include "plugins/cluster-pool/agent/kept_network.h"
#include "plugins/cluster-pool/agent/metrics.h"
#include "plugins/cluster-pool/agent/outside.h"
#include "plugins/cluster-pool/agent/seen.h"
#include "plugins/cluster-pool/agent/vanished.h"
#include "plugins/cluster-pool/agent/view.h"
#include "plugins/leases/store.h"
#include "plugins/state/blocks.h"

namespace block_agent {

/// Keeps what this node has of each network: claims blocks that the plugin wants, returns empty
/// ones, and finds out which of them are another's. From any thread: a call of the engine holds up
/// its own network alone, and of one network work() is not called twice at a time.
///
/// What it saw in the engine may be late. So each decision about a block of this node (it is ours,
/// it is another's, it is claimed again) is the answer of a call that creates the object.
class Keeper {
 public:
  using Time = cni::BootTime;
  /// For which a want stays that no ADD waits for: the runtime calls ADD again within it.
  static constexpr Time kWantLasts = std::chrono::minutes(2);
  struct Times {
    Time idle, settle;
  };

  Keeper(Self self, Times times, const Engine& engine, blocks::Folder folder);

  // What the engine has: Follower.
  void listed(Kind kind, Snapshot snapshot, Time now);
  void changed(const Object& object);
  void removed(const Object& object);
  void failed(const std::string& error);

  /// Networks that have a file.
  std::vector<std::string> networks() const { return folder_.networks(); }
  /// Does what can be done now for the network. Returns when to be called again at the latest.
  Time work(const std::string& network, Time now);
  Time work(Time now);  ///< the same for all networks, one after the other

  /// fn gets what was seen, and the engine, whose calls are made outside of the keeper's mutex.
  auto with_view(auto&& fn) {
    const std::lock_guard hold(mutex_);
    return fn(std::as_const(view_), engine_);
  }
  Totals totals() const;
  std::vector<Count> counts() const;

 private:
  using Network = KeptNetwork;
  struct Answer {  ///< to create_all()
    std::optional<Object> other = {};
    std::exception_ptr error = {};
  };
  struct Plan;
  auto or_answer(const std::string& network, auto&& read);
  Network& load(const std::string& network);
  void forget(const std::string& network) { networks_.erase(network); }
  Time work_on(const std::string& network, Time now);
  Time attend(Network& of, const std::optional<blocks::Want>& want, Time now);
  void begin_settling(Time now);
  void found_lost(const Network& of, const blocks::Block& block);
  void put(Network& of);
  void complain(const std::string& network, const std::exception& e);
  void note(Network& of, const std::string& text);
  std::optional<leases::Store> store_of(const blocks::Held& held) const;
  Object object_of(const blocks::Held& held, const blocks::Block& block) const;

  // keeper_blocks.cc: whose the blocks are.
  void check_blocks(Network& of);
  bool check(Network& of, blocks::Block& block);
  void rename_question(Network& of, blocks::Block& block);
  bool is_question_to(const Network& of, const Object& other);
  bool answer(const Object& question, Object& mine);
  void answer_unread(const std::string& network);
  bool is_renamed(const Network& of, const Object& from);
  bool take_back(Network& of, blocks::Block& block, const Object& from, Object& mine);
  void lose(Network& of, blocks::Block& block, const Object& holder);
  bool finish_return(Network& of, const blocks::Block& block);
  Time adopt(Network& of, Time now);
  Time drop_left_over(Network& of, const Object& one, Time now);
  std::string twin_of(const Network& of) const;

  // keeper_pool.cc: which pool the blocks are of.
  void require_node();
  void take_pool(Network& of, const blocks::Want& want, Time now);
  std::optional<leases::Store> leave(const blocks::Held& held, const std::string& data_dir);
  void pin(const blocks::Held& held, const std::vector<blocks::Range>& ranges);
  [[noreturn]] void refuse_size(const Object& meant, const Object& other) const;

  // keeper_claims.cc: what the plugin wants.
  bool is_over(Network& of, const blocks::Want& want, Time now);
  bool serve(Network& of, const blocks::Want& want, Time now);
  Plan plan_of(const Network& of, const blocks::Want& want) const;
  void plan_fixed(const Network& of, const netlink::Ip& ip, Plan& plan) const;
  std::size_t lacking_in(const Network& of, const blocks::Want& want, std::size_t set) const;
  bool conclude(Network& of, const Plan& plan, Time now);
  bool claim_all(Network& of, const std::vector<netlink::Cidr>& blocks);
  bool take(Network& of, const Object& object, const Answer& answer);
  std::vector<Answer> create_all(std::vector<Object>& objects);
  std::uint64_t free_in(const Network& of, std::size_t set) const;
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
  mutable std::mutex mutex_;  ///< of what is below, but during calls
  const Engine direct_;       ///< for threads without the mutex
  const Engine engine_;
  const blocks::Folder folder_;
  View view_;
  std::map<std::string, Network> networks_;
  Vanished vanished_;
  Seen seen_;
  Time settled_at_{0};                       ///< no claims before
  std::uint64_t restores_ = 0;               ///< of the engine, that were seen
  bool has_node_ = false;                    ///< the engine, an object for this node
  std::map<std::string, Failure> failures_;  ///< by network
  std::string error_;                        ///< of following the engine; "": it answers
  std::string logged_;                       ///< the last one
  Totals totals_;
};

}  // namespace block_agent
