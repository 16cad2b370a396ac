#include <unistd.h>

#include <algorithm>
#include <optional>

#include "cnitool/block_pools.h"
#include "cnitool/block_status.h"
#include "cnitool/doctor/checks.h"
#include "cnitool/output.h"
#include "plugins/names/blocks.h"
#include "plugins/names/state.h"

// Blocks of the pools of cluster-pool.
namespace tool::doctor {

namespace {

constexpr std::int64_t kPatience = 30;  // seconds that a want may wait for an agent that runs
constexpr double kNearlyFull = 0.9;
constexpr std::int64_t kSeenLasts = 15 * 60;  // the agent lists all blocks every 12 minutes

// Without the file the agent is another one's, as of a DaemonSet, or has never been started.
std::string remedy_for_agent() {
  const std::string start = cat("systemctl enable --now ", names::kAgentUnit);
  if (::access(names::kBlocksConfig, F_OK) != 0) {
    return cat("write ", names::kBlocksConfig, ", then ", start,
               "; Kubernetes: see whether a pod of patchbay-agent runs on this node");
  }
  return cat("patchbay-agent blocks --validate <", names::kBlocksConfig, "; ", start,
             "; journalctl -u ", names::kAgentUnit, " says why it ends");
}

Names addresses_of(const std::vector<Reservation>& leases) {
  Names out;
  for (const Reservation& one : leases) {
    out.push_back(cat(one.ip.str(), " of container ", printable(one.container_id)));
  }
  return out;
}

void report_lost(const BlockPool& pool, Findings& out) {
  for (const BlockUse& one : pool.blocks) {
    if (one.block.state != blocks::State::kLost) continue;
    const std::string block =
        cat("network '", pool.network, "': ", blocks::holder_text(printable(one.block.holder)),
            " has block ", one.block.cidr.str(), " of this node");
    if (one.leases.empty()) continue;  // the agent forgets it
    out.push_back({Level::kError,
                   cat(block, ", in which pods live: ", some_of(addresses_of(one.leases))),
                   "pods of the other node can have the same addresses: packets reach only one of "
                   "two. New pods get addresses of other blocks",
                   "restart these pods, here or there",
                   {pool.network}});
  }
}

// Their block may be another node's.
void report_outside(const BlockPool& pool, Findings& out) {
  if (!pool.held || pool.outside.empty()) return;
  out.push_back({Level::kWarning,
                 cat("network '", pool.network, "' has ", counted(pool.outside.size(), "lease"),
                     " in no block of this node: ", some_of(addresses_of(pool.outside))),
                 "another node can claim the block, and give the same addresses to its pods",
                 cat("cnitool blocks ", pool.network, "; restart these pods, which get others"),
                 {pool.network}});
}

// Whether this node has all blocks that are claimed, and addresses left in them: nobody lacks one,
// or its agent would have been asked for them.
bool has_it_alone(const BlockPool& pool, const BlockPool::Count& set) {
  if (set.own < set.claimed) return false;
  std::uint64_t used = 0, size = 0;
  for (const BlockUse& one : pool.blocks) {
    if (one.block.state != blocks::State::kHeld) continue;
    used += one.used;
    size += one.size;
  }
  return static_cast<double>(used) < kNearlyFull * static_cast<double>(size);
}

void report_nearly_full(const Node& node, const BlockPool& pool, Findings& out) {
  const auto counts = pool.counts();
  for (const BlockPool::Count& set : counts) {
    const bool is_nearly =
        static_cast<double>(set.claimed) >= kNearlyFull * static_cast<double>(set.total);
    if (set.total == 0 || !is_nearly || has_it_alone(pool, set)) continue;
    const auto age = pool.seen ? node.now - pool.seen->at : 0;
    const bool is_old = age > kSeenLasts;
    out.push_back(
        {set.claimed >= set.total && !is_old ? Level::kError : Level::kWarning,
         cat("network '", pool.network, "': ", set.claimed, " of ", set.total, " blocks of ",
             counts.size() == 1 ? "the cluster" : joined(set.subnets), " have a node",
             is_old ? cat(", as patchbay-agent saw it ", age_text(age), " ago") : ""),
         "a node whose blocks are full gets no other, and its pods do not start",
         cat("cnitool blocks ", pool.network,
             "; add a range on all nodes, or choose a longer blockSize for a new network; "
             "cnitool blocks release NODE for one that was removed"),
         {pool.network}});
  }
}

// The same consequence as that of an engine that is away.
void report_silence(const Node& node, const Names& networks, Findings& out) {
  const auto is_served = [](const BlockPool& one) { return one.has_file; };
  if (std::ranges::none_of(node.block_pools, is_served)) return;  // report_unserved() has these
  out.push_back({Level::kWarning, "no patchbay-agent answers for blocks",
                 "pods start as long as the blocks of this node have addresses, and no longer",
                 remedy_for_agent(), networks});
}

void report_engine(const BlockStatus& status, const Names& networks, Findings& out) {
  if (!status.serves && !status.why.empty()) {
    out.push_back({Level::kError, cat("patchbay-agent serves no blocks: ", printable(status.why)),
                   "pods start as long as the blocks of this node have addresses, and no longer",
                   "remove what is in its way; the agent tries again each second", networks});
  }
  if (status.serves && !status.is_engine_there && !status.engine.empty()) {
    out.push_back({Level::kWarning,
                   cat(status.engine, " does not answer patchbay-agent",
                       status.why.empty() ? "" : ": ", printable(status.why)),
                   "pods start as long as the blocks of this node have addresses, and no longer",
                   "patchbay-agent status; see that the server runs and that this node reaches it",
                   networks});
  }
  for (const BlockStatus::Missing& one : status.missing) {
    out.push_back({Level::kWarning,
                   cat("node '", printable(one.node), "' has blocks, and no Node object since ",
                       age_text(one.seconds)),
                   "no other node gets the addresses until the blocks are released, which the "
                   "agents do after nodeGone",
                   cat("cnitool blocks release ", printable(one.node), " if its pods do not run"),
                   networks});
  }
}

std::string remedy_of_running(const BlockPool& pool) {
  if (pool.held) return cat("cnitool blocks ", pool.network);
  return cat("patchbay-agent status; let the agent see ", names::kBlocksDir,
             ": in a pod mount /var/lib/cni of the node, else see its --blocks-dir");
}

// It claims nothing, and no ADD has waited for that yet.
void report_note(const Node& node, const BlockPool& pool, Findings& out) {
  const bool is_unserved = pool.want && node.now - pool.want->since >= kPatience;
  if (is_unserved || !pool.held || pool.held->note.empty()) return;
  out.push_back({Level::kWarning,
                 cat("network '", pool.network,
                     "': patchbay-agent claims no block: ", printable(pool.held->note)),
                 "pods start as long as the blocks of this node have addresses, and no longer",
                 cat("cnitool blocks ", pool.network),
                 {pool.network}});
}

// Others of the segment have these addresses by the config, as it was changed under living pods.
void report_not_given(const BlockPool& pool, Findings& out) {
  if (pool.pool() == nullptr) return;
  for (const BlockUse& use : pool.blocks) {
    const blocks::Range* const range = pool.pool()->find(use.block.cidr);
    std::vector<Reservation> wrong;
    for (const Reservation& one : use.leases) {
      if (range != nullptr && range->contains(one.ip) && !range->gives(one.ip))
        wrong.push_back(one);
    }
    if (wrong.empty()) continue;
    out.push_back({Level::kWarning,
                   cat("network '", pool.network,
                       "': pods have addresses that the pool excludes, "
                       "or its gateway: ",
                       some_of(addresses_of(wrong))),
                   "the config was changed while these pods ran: where another machine has the "
                   "address by now, packets reach only one of the two",
                   "restart these pods, which get others",
                   {pool.network}});
  }
}

// Not a claim, as after a person wrote an object: pods of a node may have the addresses all the
// same.
void report_no_nodes(const BlockPool& pool, Findings& out) {
  for (const auto& holder : pool.seen ? pool.seen->nodes : std::vector<blocks::Nodes::Node>()) {
    if (blocks::is_node(holder.name)) continue;
    Names taken;
    for (const auto& block : holder.blocks) taken.push_back(block.str());
    out.push_back(
        {Level::kWarning,
         cat("network '", pool.network, "': ", printable(holder.name), " has ", some_of(taken)),
         "it is no claim of a node: no node gets these addresses as long as it exists",
         "see that no pod has such an address, then remove it: kubectl get addressblocks, "
         "or etcdctl get --prefix /patchbay/blocks",
         {pool.network}});
  }
}

// ADD has asked, and nobody has answered.
void report_unserved(const Node& node, const BlockPool& pool, bool runs, Findings& out) {
  if (!pool.want || (runs && node.now - pool.want->since < kPatience)) return;
  const std::string since = age_text(node.now - pool.want->since);
  const auto has_room = [](const BlockUse& one) {
    return one.block.state == blocks::State::kHeld && one.used < one.size;
  };
  const bool is_full = std::ranges::none_of(pool.blocks, has_room);
  std::string note;
  if (pool.held && !pool.held->note.empty()) {
    note = cat("; patchbay-agent says: ", pool.held->note);
  } else if (runs && !pool.held) {
    note = cat("; patchbay-agent runs, and has written nothing to ", names::kBlocksDir);
  }
  out.push_back({is_full ? Level::kError : Level::kWarning,
                 cat("network '", pool.network, "' wants a block since ", since,
                     runs ? "" : ", and no patchbay-agent answers for blocks"),
                 cat(is_full ? "no address is free here: pods do not start"
                             : "the blocks of this node will be full",
                     note),
                 runs ? remedy_of_running(pool) : remedy_for_agent(),
                 {pool.network}});
}

}  // namespace

Findings check_blocks(const Node& node) {
  Findings out;
  const auto status = block_status();
  Names networks;
  for (const BlockPool& pool : node.block_pools) networks.push_back(pool.network);
  if (status) report_engine(*status, networks, out);
  if (!status) report_silence(node, networks, out);
  for (const BlockPool& pool : node.block_pools) {
    if (!pool.failure.empty()) {
      out.push_back({Level::kError,
                     cat("network '", pool.network, "': ", pool.failure),
                     "which blocks this node has is unknown: pods get no address",
                     remedy_for_agent(),
                     {pool.network}});
    }
    report_lost(pool, out);
    report_outside(pool, out);
    report_nearly_full(node, pool, out);
    report_unserved(node, pool, status.has_value(), out);
    if (!status || !status->serves || status->is_engine_there) report_note(node, pool, out);
    report_not_given(pool, out);
    report_no_nodes(pool, out);
  }
  return out;
}

}  // namespace tool::doctor
