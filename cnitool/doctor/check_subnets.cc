#include <algorithm>
#include <array>
#include <set>

#include "cnitool/block_pools.h"
#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/networks.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/doctor/routes.h"
#include "cnitool/doctor/segments.h"
#include "cnitool/find_by.h"

// Addresses that two networks give out to pods which see each other.
namespace tool::doctor {

namespace {

using netlink::Cidr;
using netlink::Ip;

// "network 'lan': cluster-pool, 10.5.0.0/24, /etc/cni/net.d/20-lan.conflist, on eth1".
std::string line_of(const NetworkAddresses& one) {
  std::set<Cidr> subnets;
  for (const Given& given : one.given.all) subnets.insert(given.range.subnet);
  Names texts;
  for (const Cidr& subnet : subnets) texts.push_back(subnet.str());
  const Wire& wire = *one.wire;
  const std::string vlan = wire.vlan == 0 ? "" : cat(", VLAN ", wire.vlan);
  const std::string link = wire.link.empty() ? "the link of the default route" : wire.link;
  return cat("network '", one.network, "': ", one.given.type, ", ", some_of(texts), ", ",
             one.file.empty() ? "a config that no file has" : one.file,
             wire.kind == Wire::Kind::kNode ? "" : cat(", on ", link, vlan));
}

std::string ranges_text(const std::vector<Overlap>& overlaps) {
  Names out;
  for (const Overlap& one : overlaps) out.push_back(one.str());
  return some_of(out);
}

bool touches(const Cidr& block, const Clash& clash) {
  return std::ranges::any_of(clash.overlaps, [&](const Overlap& one) {
    return block.contains(one.first) || (one.first <= block.ip && block.ip <= one.last);
  });
}

// "; node 'n2' has block 10.5.0.16/28 of network 'lan'": who can give such an address now.
std::string holders_of(const Node& node, const Clash& clash) {
  Names out;
  for (const NetworkAddresses* const network : {clash.other, clash.one}) {
    const auto* const pool = find_by(node.block_pools, &BlockPool::network, network->network);
    if (pool == nullptr || !pool->seen) continue;
    for (const auto& holder : pool->seen->nodes) {
      const auto found = std::ranges::find_if(
          holder.blocks, [&](const Cidr& block) { return touches(block, clash); });
      if (found == holder.blocks.end()) continue;
      out.push_back(cat(blocks::holder_text(holder.name), " has block ", found->str(),
                        " of network '", network->network, "'"));
    }
  }
  return out.empty() ? "" : cat("; ", some_of(out));
}

// The networks that together are the addresses from first to last.
std::vector<Cidr> networks_from(Ip first, const Ip& last) {
  std::vector<Cidr> out;
  for (;;) {
    unsigned prefix = first.bits();
    while (prefix > 0 && first.masked(prefix - 1) == first && first.broadcast(prefix - 1) <= last) {
      --prefix;
    }
    out.push_back({first, prefix});
    const auto next = first.broadcast(prefix).next();
    if (!next || *next > last) return out;
    first = *next;
  }
}

/// A network of a clash, and what the other one has of its addresses.
struct Side {
  const NetworkAddresses *mine, *theirs;
  const Given *own, *other;
  const Overlap& overlap;
  // A gateway at an end is no pod's.
  bool is_gateway(const Ip& ip) const {
    return ip == own->range.gateway || ip == other->range.gateway;
  }
  bool is_from_start() const {
    Ip first = own->range.start;
    while (first < overlap.first && is_gateway(first)) first = *first.next();
    return first == overlap.first;
  }
  bool is_to_end() const {
    Ip last = own->range.end;
    while (overlap.last < last && is_gateway(last)) last = *last.prev();
    return last == overlap.last;
  }
};

// The first is to change: what a file has before what the API server or flanneld has.
std::array<Side, 2> sides_of(const Clash& clash, const Overlap& both) {
  const Side later{clash.one, clash.other, both.one, both.other, both};
  const Side earlier{clash.other, clash.one, both.other, both.one, both};
  const auto rank = [](const Side& side) {
    return side.own->path.empty() ? 2 : side.mine->file.empty() ? 1 : 0;
  };
  if (rank(earlier) < rank(later)) return {earlier, later};
  return {later, earlier};
}

std::string key_of(const Given& given) { return given.path.substr(given.path.rfind('.') + 1); }

std::string place_in(const Side& side, const std::string& key) {
  const std::string& path = side.own->path;
  return cat("in \"", path.substr(0, path.rfind('.')), "\" of network '", side.mine->network, "'",
             side.mine->file.empty() ? "" : cat(" (", side.mine->file, ")"), " ", key);
}

// `exclude` of a pool, for all that the other network may ever give, if that leaves an address.
std::string exclusion_for(const Side& side) {
  constexpr std::size_t kMax = 4;
  const cni::AddressRange &own = side.own->range, &other = side.other->range;
  const Cidr theirs = other.subnet.network();
  const bool is_all = theirs.contains(own.start) && theirs.contains(own.end);
  std::vector<Cidr> all{theirs};
  if (is_all || other.start == other.end) {
    all = networks_from(side.overlap.first, side.overlap.last);
  }
  if (all.size() > kMax) return {};
  Names texts;
  for (const Cidr& one : all) {
    const bool is_address = one.prefix == one.ip.bits();
    texts.push_back(cat('"', is_address ? one.ip.str() : one.str(), '"'));
  }
  return place_in(side, cat("add ", joined(texts), " to \"exclude\""));
}

// Empty: the network would have no address left, or its plugin has no key for it.
std::string cut_of(const Side& side) {
  if (side.own->path.empty()) return {};
  const std::string& type = side.mine->given.type;
  if (type != "cluster-pool" && type != "host-local" && type != "whereabouts") return {};
  if (side.is_from_start() && side.is_to_end()) return {};
  if (type != "host-local") {
    const std::string exclusion = exclusion_for(side);
    if (!exclusion.empty()) return exclusion;
  }
  const bool is_foreign = type == "whereabouts";
  if (side.is_from_start()) {
    return place_in(side, cat("set \"", is_foreign ? "range_start" : "rangeStart", "\": \"",
                              side.overlap.last.next()->str(), '"'));
  }
  if (!side.is_to_end()) return {};
  return place_in(side, cat("set \"", is_foreign ? "range_end" : "rangeEnd", "\": \"",
                            side.overlap.first.prev()->str(), '"'));
}

// Those of the network that have such an address keep it.
std::string restart_for(const Node& node, const Side& side) {
  std::vector<const cni::AttachmentKey*> pods;
  for (const AttachmentState& one : node.attachments) {
    const bool is_in = std::ranges::any_of(one.result.ips, [&](const cni::Address& address) {
      return side.overlap.first <= address.cidr.ip && address.cidr.ip <= side.overlap.last;
    });
    if (is_in && one.is_alive() && one.key.network == side.mine->network) pods.push_back(&one.key);
  }
  return pods.empty() ? "" : cat("; then ", restart_of(node, pods));
}

std::string only_one_of(const Side& side) {
  return cat("keep only one of ", side.theirs->file, " and ", side.mine->file);
}

std::string apart_of(const Node& node, const Side& side) {
  if (side.own->path.empty()) return only_one_of(side);
  return other_subnet(node, {side.mine->network, side.mine->file, side.own->range},
                      key_of(*side.own));
}

std::string remedy_for(const Node& node, const Clash& clash) {
  const auto sides = sides_of(clash, clash.overlaps.front());
  const auto everywhere = [](const Side& side) {
    return side.mine->given.type == "cluster-pool" ? ", on all nodes" : "";
  };
  for (const Side& side : sides) {
    const std::string cut = cut_of(side);
    if (!cut.empty()) return cat(cut, everywhere(side), restart_for(node, side));
  }
  if (sides[0].own->path.empty()) return only_one_of(sides[0]);
  return cat(place_in(sides[0], cat("set another \"", key_of(*sides[0].own), '"')),
             everywhere(sides[0]), restart_for(node, sides[0]));
}

Finding finding_of(const Node& node, const Clash& clash) {
  const NetworkAddresses &one = *clash.one, &other = *clash.other;
  if (clash.overlaps.empty()) {
    const Overlap& both = *clash.subnets;
    return {Level::kError,
            cat("subnet ", both.one->range.subnet.str(), " of network '", one.network,
                "' overlaps ", both.other->range.subnet.str(), " of network '", other.network, "'"),
            "the node has two routes to the addresses and uses one",
            apart_of(node, sides_of(clash, both)[0]),
            {one.network, other.network}};
  }
  const bool are_routed = one.wire->is_routed && other.wire->is_routed;
  const bool are_apart = are_routed && one.wire->link != other.wire->link;
  return {Level::kError,
          cat("networks '", other.network, "' and '", one.network, "' can give the same addresses",
              are_routed ? "" : " on one segment", ": ", ranges_text(clash.overlaps)),
          cat("two pods can get the same address", holders_of(node, clash)),
          are_apart ? apart_of(node, sides_of(clash, clash.overlaps.front())[0])
                    : remedy_for(node, clash),
          {one.network, other.network},
          {line_of(other), line_of(one)}};
}

GivenAddresses pool_addresses(const BlockPool& pool) {
  GivenAddresses out;
  if (pool.pool() == nullptr) return out;
  for (const auto& set : pool.pool()->sets) {
    for (const blocks::Range& one : set) {
      for (auto& run : runs_without({one.subnet, one.start, one.end, one.gateway}, one.exclude)) {
        out.all.push_back({"", run});
      }
    }
  }
  return out;
}

// Pools of networks whose configs were not seen, as those of Multus: where their pods are is
// unknown.
void add_unknown(const Node& node, const std::vector<NetworkAddresses>& known, Findings& out) {
  const auto is_known = [&](const BlockPool& one) {
    return find_by(known, &NetworkAddresses::network, one.network) != nullptr;
  };
  for (auto one = node.block_pools.begin(); one != node.block_pools.end(); ++one) {
    for (auto other = node.block_pools.begin(); other != one; ++other) {
      if (is_known(*one) && is_known(*other)) continue;
      const GivenAddresses mine = pool_addresses(*one), theirs = pool_addresses(*other);
      const auto shared = overlaps_of(mine, theirs);
      if (shared.empty()) continue;
      const BlockPool& unseen = is_known(*one) ? *other : *one;
      out.push_back({Level::kUnknown,
                     cat("networks '", other->network, "' and '", one->network,
                         "' have pools with the same addresses: ", ranges_text(shared),
                         ". Where pods of '", unseen.network, "' are is unknown: no file of ",
                         node.networks.dir, " and no pod has its config"),
                     "on one segment, two pods can get the same address",
                     "none where their segments differ; else give both one \"name\", which is that "
                     "of the pool",
                     {other->network, one->network}});
    }
  }
}

// Of pods that were left when their network got another name: host-local passes over their
// addresses, and check_held() reports them.
bool is_passed_over(const Clash& clash) {
  const auto is_local = [](const NetworkAddresses& one) { return one.given.type == "host-local"; };
  const bool has_no_file = clash.one->file.empty() || clash.other->file.empty();
  return has_no_file && is_local(*clash.one) && is_local(*clash.other);
}

}  // namespace

// Networks of one segment may share a subnet, but no address of it.
Findings check_subnets(const Node& node) {
  Findings out;
  const std::vector<NetworkAddresses> all = address_networks(node);
  const Segments segments(node);
  const auto joined = [&](const Wire& a, const Wire& b) { return segments.are_joined(a, b); };
  for (const Clash& one : clashes(all, joined)) {
    if (!is_passed_over(one)) out.push_back(finding_of(node, one));
  }
  add_unknown(node, all, out);
  return out;
}

bool has_several_subnets(const Node& node) {
  return node.block_pools.size() > 1 || address_networks(node).size() > 1;
}

}  // namespace tool::doctor
