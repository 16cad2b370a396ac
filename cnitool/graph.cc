#include "cnitool/graph.h"

#include <fcntl.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "cnitool/block_pools.h"
#include "cnitool/cached.h"
#include "cnitool/graph_broken.h"
#include "cnitool/graph_formats.h"
#include "libcni/runtime/liveness.h"
#include "netlink/netns.h"
#include "netlink/route/socket.h"
#include "netlink/types/fd.h"

namespace tool {

namespace {

// "eth1", "eth0 in the pod": the link that a macvlan or a VLAN stands on; empty: on none.
std::string parent_of(const netlink::Link& link, netlink::RouteSocket& pod) {
  if (link.parent_index == 0) return {};
  if (!link.parent_nsid) {
    const auto parent = pod.find(link.parent_index);
    return parent ? parent->name + " in the pod" : std::string();
  }
  if (link.parent_nsid != pod.nsid(netlink::NetNs::current())) return {};
  netlink::RouteSocket node;
  const auto parent = node.find(link.parent_index);
  return parent ? parent->name : std::string();
}

// Adds the interface's master as the kernel reports it: a link on the node, or one in the pod,
// which is a bridge or a VRF.
Seen with_master(Seen seen, const cni::CachedAttachment& one) {
  const auto ns = netlink::NetNs::find(one.netns);
  if (!ns) return seen;
  netlink::RouteSocket pod(*ns);
  const auto link = pod.find(one.key.ifname);
  if (!link) return seen;
  if (link->master != 0) {
    const auto master = pod.find(link->master);
    const auto* const vrf = master ? std::get_if<netlink::Vrf>(&master->data) : nullptr;
    if (vrf != nullptr) {
      seen.vrf = cat(master->name, ", table ", vrf->table);
    } else if (master) {
      seen.port_of = master->name;
    }
  }
  seen.master = parent_of(*link, pod);
  return seen;
}

// Adds the kinds of the result's further interfaces.
Seen with_kinds(Seen seen, const cni::CachedAttachment& one) {
  const auto ns = netlink::NetNs::find(one.netns);
  if (!ns) return seen;
  netlink::RouteSocket pod(*ns);
  for (const cni::Interface& further : result_of(one).interfaces) {
    if (further.sandbox.empty() || further.name == one.key.ifname) continue;
    const auto link = pod.find(further.name);
    if (!link) continue;
    const std::string parent = parent_of(*link, pod);
    seen.kinds.emplace(link->name, cat(link->kind, parent.empty() ? "" : " on ", parent));
  }
  return seen;
}

Seen look(const cni::CachedAttachment& one) {
  if (one.result->is_null()) return {"unfinished"};
  const auto liveness = cni::liveness_of(one.netns, one.key.ifname);
  Seen seen{.state = std::string(str(liveness)), .lease = lease_of(one.key)};
  if (liveness != cni::Liveness::kAlive) return seen;
  try {
    return with_kinds(with_master(seen, one), one);
  } catch (const netlink::Error&) {  // it went meanwhile
    return seen;
  }
}

std::vector<GraphPool> pools_of(const std::vector<BlockPool>& all) {
  std::vector<GraphPool> out;
  for (const BlockPool& pool : all) {
    GraphPool& to =
        out.emplace_back(GraphPool{.network = pool.network, .lines = texts_of(pool.counts())});
    const auto counts = pool.counts();
    to.claimed = sum_of(counts).claimed;
    to.total = sum_of(counts).total;
    for (const BlockPool::Count& one : counts) {
      to.sets.push_back({one.subnets, one.claimed, one.total});
    }
    for (const BlockUse& one : pool.blocks) {
      to.blocks.push_back({one.block.cidr.str(), one.block.state.str(), one.used, one.size});
    }
  }
  return out;
}

void write_file(const std::string& file, const std::string& text) {
  constexpr unsigned kMode = 0644;
  const netlink::Fd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (!fd) throw netlink::Error(cat("write '", file, "'"), errno);
  netlink::write_all(fd.get(), text, cat("'", file, "'"));
}

std::string drawn(const Graph& graph, const GraphOptions& options, const Output& output) {
  if (output.json) {
    return json_of(graph).dump(4, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
           '\n';
  }
  if (options.format == "svg") return graph_svg(graph);
  if (options.format == "dot") return graph_dot(graph);
  const bool colours = output.colours && options.file.empty();
  return graph_text(graph, {.out = output.out, .colours = colours});
}

}  // namespace

void graph(const GraphOptions& options, const Selection& which, const Settings& settings,
           const Output& output) {
  Graph whole = graph_of(sorted_entries(cni::Cache(settings.cache_dir)), KernelState::read(), look);
  whole.pools = pools_of(block_pools());
  if (!which.containers.empty()) keep_only(which.containers, whole);
  if (options.probe) {
    probe::Options probing = options.probing;
    probing.which = which;
    mark_broken(probe::probe(settings, probing), whole);
  }
  const std::string text = drawn(whole, options, output);
  if (options.file.empty()) {
    output.out << text;
  } else {
    write_file(options.file, text);
  }
}

}  // namespace tool
