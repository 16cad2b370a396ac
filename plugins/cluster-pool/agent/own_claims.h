#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "libcni/daemon/event_loop.h"
#include "plugins/cluster-pool/agent/view.h"
#include "plugins/state/blocks.h"

namespace block_agent {

/// Who claims: the node's name, and which machine it is.
struct Self {
  std::string node, machine;
  bool made(const Object& one) const { return one.node == node && one.machine == machine; }
};

/// Which claims of a network in this node's name are its own. A copy of this machine may run with
/// its name and its machine-id(5), as one of a cloned disk: to the engine both are one node.
class OwnClaims {
 public:
  using Time = cni::BootTime;

  /// The UUID of a new claim.
  std::string fresh() { return *made_.insert(new_claim()).first; }
  /// Whether the claim is of this process.
  bool made(const std::string& claim) const { return made_.contains(claim); }
  /// From the first call on, for a time, claims are taken for those of an earlier process.
  void trust(const std::vector<Object>& own, const blocks::Held& held, Time now);
  /// trust() begins anew, not before the time. After a restore, which brings old claims back.
  void begin_anew(Time at);
  /// Whether a claim in this node's name is that of the copy.
  bool is_of_copy(const Object& own) const;

  /// When an answer to a question has to be there.
  Time answer_until(const Object& question, Time now);
  /// A question was put in the place of a claim. Returns the same.
  Time asked(const Object& question, Time now);
  void removed(const Object& one);

 private:
  struct Asked {
    std::uint64_t version = 0;  ///< of the question
    Time until{0};
  };
  std::set<std::string> made_, trusted_;
  std::optional<Time> trusts_until_;
  Time begins_at_{0};
  bool is_trusting_ = true;
  std::map<netlink::Cidr, Asked> asked_;
  std::map<std::string, unsigned> removals_;
};

/// Claims in this node's name that its file does not have.
std::vector<Object> claims_beside(const Self& self, const blocks::Held& held, const View& view);

}  // namespace block_agent
