#include <algorithm>
#include <map>
#include <set>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/facts.h"
#include "cnitool/doctor/unlisted.h"
#include "libcni/common/hash.h"

// Whether those that live have what they need, and who is dead.
namespace tool::doctor {

namespace {

using netlink::Link;

constexpr std::time_t kLongestAdd = 600;  // seconds; no runtime waits longer
constexpr const char* kKept = "they keep addresses and hostPorts";

std::string name_of(const cni::AttachmentKey& key) {
  return cat(key.container_id.substr(0, 12), " (", key.ifname, ")");
}

std::string name_of(const AttachmentState& one) { return name_of(one.key); }

// Where no lock tells whether its ADD goes on, its age does.
bool is_interrupted(const Node& node, const AttachmentState& one) {
  return !one.is_finished && (one.is_running == false || node.now - one.modified > kLongestAdd);
}

bool has_gc(const Node& node, const std::string& network) {
  const cni::NetworkList* const list = node.network(network);
  return list == nullptr || !list->disable_gc;
}

// DEL of the one, GC for several. A network whose config forbids GC has DEL of each.
std::string removal(const Node& node, const std::vector<const AttachmentState*>& all) {
  const std::string& network = all.front()->key.network;
  if (all.size() > 1 && has_gc(node, network)) return cat("cnitool gc ", network, " --keep-alive");
  std::string out;
  for (const AttachmentState* one : all) {
    const auto& [its_network, id, ifname] = one->key;
    out += cat(out.empty() ? "" : "; ", "cnitool del ", its_network, " ", quoted(one->netns),
               " --container-id ", id, " --ifname ", ifname);
  }
  return out;
}

// By network and by what its config is refused with: a pod that is started again and again leaves
// many of the same.
void add_interrupted(const Node& node, Findings& out) {
  std::map<std::pair<std::string, std::string>, std::vector<const AttachmentState*>> found;
  for (const AttachmentState& one : node.attachments) {
    if (is_interrupted(node, one)) found[{one.key.network, one.refusal}].push_back(&one);
  }
  for (const auto& [what, all] : found) {
    const auto& [network, refusal] = what;
    std::vector<std::string> names;
    for (const AttachmentState* one : all) names.push_back(name_of(*one));
    out.push_back({Level::kWarning,
                   cat("network '", network, "' has ", all.size(), " attachments whose ADD ",
                       refusal.empty() ? "was interrupted: " : "failed: ", some_of(names),
                       refusal.empty() ? "" : cat("; ", refusal)),
                   kKept, removal(node, all)});
  }
}

// They are no leftovers, and nothing is to be removed.
void add_unlisted(const Node& node, Findings& out) {
  const Unlisted found = unlisted(node);
  std::map<std::string, std::vector<std::string>> names;
  for (const auto& key : found.attachments) {
    names[cat("network '", key.network, "'")].push_back(name_of(key));
  }
  for (const SeenLink& link : found.links) {
    names["the node"].push_back(cat("link '", link.name, "' to '", link.netns, "'"));
  }
  for (const auto& [where, all] : names) {
    out.push_back({Level::kNote,
                   cat(where, " has ", all.size(),
                       " attachments without a cache entry, whose pods "
                       "live: ",
                       some_of(all)),
                   "the entries were lost, or another runtime has them in a cache of its own"});
  }
}

// The attachments of a network that have an interface on its bridge.
std::vector<const AttachmentState*> living(const Node& node, const std::string& network) {
  std::vector<const AttachmentState*> out;
  for (const AttachmentState& one : node.attachments) {
    if (one.is_alive() && one.key.network == network) out.push_back(&one);
  }
  return out;
}

bool has_address(const Node& node, const Link& link, const netlink::Ip& ip) {
  return std::any_of(node.addresses.begin(), node.addresses.end(), [&](const auto& address) {
    return address.link == link.index && address.cidr.ip == ip;
  });
}

std::string repair(const std::string& network) { return cat("cnitool repair ", network); }

// The gateways that pods were given and the bridge has not.
std::vector<std::string> missing_gateways(const Node& node, const Link& link,
                                          const std::vector<const AttachmentState*>& pods) {
  std::set<std::string> out;
  for (const AttachmentState* pod : pods) {
    for (const cni::Address& address : pod->result.ips) {
      if (address.gateway && !has_address(node, link, *address.gateway)) {
        out.insert(address.gateway->str());
      }
    }
  }
  return {out.begin(), out.end()};
}

}  // namespace

Findings check_dead(const Node& node) {
  Findings out;
  std::map<std::string, std::vector<std::string>> dead;
  for (const AttachmentState& one : node.attachments) {
    const bool gone =
        one.liveness == cni::Liveness::kNoNamespace || one.liveness == cni::Liveness::kNoInterface;
    if (one.is_finished && gone) {
      dead[one.key.network].push_back(cat(name_of(one), ", ", str(one.liveness)));
    }
  }
  for (const auto& [network, names] : dead) {
    out.push_back({Level::kWarning,
                   cat("network '", network, "' has ", names.size(),
                       " attachments of pods that do not exist: ", some_of(names)),
                   kKept, cat("cnitool gc ", network, " --keep-alive")});
  }
  add_interrupted(node, out);
  add_unlisted(node, out);
  for (const cni::Cache::Broken& one : node.broken) {
    const std::string file = cat(node.cache_dir, "/results/", one.name);
    out.push_back({Level::kWarning, cat("cache file '", file, "' is broken: ", one.why),
                   "DEL runs without the config and arguments of ADD", cat("rm ", file)});
  }
  return out;
}

Findings check_bridges(const Node& node) {
  Findings out;
  for (const BridgeNetwork& one : bridge_networks(node)) {
    const auto pods = living(node, one.list->name);
    if (pods.empty()) continue;  // ADD makes it
    const std::string why =
        cat(pods.size(), " pods of network '", one.list->name, "' have no connection through it");
    const Link* const bridge = node.link(one.bridge);
    if (bridge == nullptr) {
      out.push_back({Level::kError, cat("bridge '", one.bridge, "' does not exist"), why,
                     repair(one.list->name)});
      continue;
    }
    if (!bridge->up) {
      out.push_back({Level::kError, cat("bridge '", one.bridge, "' is down"), why,
                     cat("ip link set ", one.bridge, " up")});
    }
    const std::string device = one.vlan == 0 ? one.bridge : cat(one.bridge, ".", one.vlan);
    const Link* const gateway = node.link(device);
    if (!one.is_gateway || gateway == nullptr) continue;
    for (const std::string& ip : missing_gateways(node, *gateway, pods)) {
      out.push_back({Level::kError, cat("'", device, "' lacks the gateway address ", ip), why,
                     repair(one.list->name)});
    }
  }
  return out;
}

Findings check_ports(const Node& node) {
  Findings out;
  for (const BridgeNetwork& one : bridge_networks(node)) {
    const Link* const bridge = node.link(one.bridge);
    std::vector<std::string> lost;
    for (const AttachmentState* pod : living(node, one.list->name)) {
      const std::string tag = tag_of(pod->key);
      for (const Link& link : node.links) {
        if (link.kind != "veth" || !link.alias.starts_with(tag)) continue;
        const bool connected = bridge != nullptr && link.master == bridge->index && link.up;
        if (!connected) lost.push_back(cat(name_of(*pod), " at '", link.name, "'"));
      }
    }
    if (lost.empty() || bridge == nullptr) continue;
    out.push_back(
        {Level::kError,
         cat(lost.size(), " pods are not connected to bridge '", one.bridge, "': ", some_of(lost)),
         "their host veths were detached from it or set down", repair(one.list->name)});
  }
  return out;
}

// Only what is kept under the owner's tag can be missed: not what iptables rules are for.
Findings check_rules(const Node& node) {
  Findings out;
  std::set<std::string> masqueraded, mapped, accepted;
  for (const Owned& one : node.firewall.owned) {
    constexpr std::size_t kPrefix = 33;
    auto& tags = one.what == "masquerading" ? masqueraded
                 : one.what == "firewall"   ? accepted
                                            : mapped;
    tags.insert(one.tag.substr(0, kPrefix));
  }
  const bool iptables =
      node.firewall.has_chain("CNI-HOSTPORT-DNAT") || node.firewall.has_legacy_rules;
  for (const BridgeNetwork& one : bridge_networks(node)) {
    std::vector<std::string> unmasked, unmapped, dropped;
    for (const AttachmentState* pod : living(node, one.list->name)) {
      const std::string tag = tag_of(pod->key);
      const bool chain =
          node.firewall.has_chain(cni::masquerade_chain(pod->key.network, pod->key.container_id));
      if (one.masquerades && !pod->result.ips.empty() && !masqueraded.contains(tag) && !chain &&
          !node.firewall.has_legacy_rules) {
        unmasked.push_back(name_of(*pod));
      }
      if (one.has_ports && pod->has_ports && !iptables && !mapped.contains(tag)) {
        unmapped.push_back(name_of(*pod));
      }
      if (one.firewall == "nftables" && !pod->result.ips.empty() && !accepted.contains(tag)) {
        dropped.push_back(name_of(*pod));
      }
    }
    const auto say = [&](const std::vector<std::string>& pods, const char* what, const char* why) {
      if (pods.empty()) return;
      out.push_back({Level::kError,
                     cat("network '", one.list->name, "': the rules for the ", what, " of ",
                         some_of(pods), " do not exist"),
                     cat(why, "; the node's rules were flushed"), repair(one.list->name)});
    };
    say(unmasked, "masquerading", "replies do not reach the pods");
    say(unmapped, "hostPorts", "the pods' hostPorts are unreachable");
    say(dropped, "firewall", "policies of networks may not be in force");
  }
  return out;
}

}  // namespace tool::doctor
