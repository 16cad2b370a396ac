#include "plugins/portmap/conflict.h"

#include <algorithm>

#include "libcni/common/file_users.h"
#include "netlink/diag.h"
#include "netlink/netns.h"
#include "netlink/route/socket.h"

namespace portmap {

namespace {

using cni::cat;

bool overlaps(const netlink::Holder& holder, const Key& key) {
  return holder.address.is_unspecified() || !key.address || holder.address == *key.address;
}

std::string describe(const netlink::Holder& holder, const std::vector<cni::FileUser>& processes) {
  const std::string where = cat(holder.address.str(), " port ", holder.port);
  if (processes.empty()) return cat("a socket of the node on ", where);
  return cat("process '", processes[0].name, "' (pid ", processes[0].pid, ") on ", where);
}

void refuse_holder(const Key& key, const netlink::Holder& holder, const std::string& container_id) {
  const auto processes = cni::users_of_socket(holder.inode);
  const bool own = std::ranges::any_of(
      processes, [&](const cni::FileUser& process) { return process.has_argument(container_id); });
  if (own) return;
  throw cni::Error(kPortInUse, cat("map ", key.str(), ": in use by ", describe(holder, processes)));
}

void refuse_listeners(const std::vector<Claim>& claims, const std::string& container_id) {
  for (const Claim& claim : claims) {
    const Key& key = claim.key;
    const int protocol = static_cast<int>(key.protocol);
    if (netlink::can_bind(key.family, protocol, key.address, key.port)) continue;
    for (const netlink::Holder& holder : netlink::port_holders(key.family, protocol, key.port)) {
      if (overlaps(holder, key)) refuse_holder(key, holder, container_id);
    }
  }
}

bool has_living_veth(const Tag& tag) {
  const std::string owner = tag.of_attachment();
  netlink::RouteSocket node;
  const auto veths = node.links_of_kind("veth");
  return std::ranges::any_of(veths, [&](const netlink::Link& link) {
    return link.alias.starts_with(owner) && link.peer_nsid && node.has_namespace(*link.peer_nsid);
  });
}

// \throws cni::Error(kPortInUse) if the owner of the tag exists, or if that cannot be told.
void refuse_owner(const StateDir& state, const Tag& tag, const Key& key) {
  const std::string file = tag.container();
  const auto all = attachments_of(state, file);
  const bool exists = !all.empty() || state.dir().has_file(file);
  if (exists && all.empty()) {
    throw cni::Error(kPortInUse,
                     cat("map ", key.str(), ": in use by a container whose state file '",
                         Container::kDir, "/", file, "' is torn"),
                     "DEL of that container, or GC, releases the port");
  }
  if (!exists && has_living_veth(tag)) {
    throw cni::Error(kPortInUse,
                     cat("map ", key.str(), ": in use by a pod whose state file '", Container::kDir,
                         "/", file, "' was removed"),
                     "`cnitool repair` writes it again");
  }
  for (const Attachment& one : all) {
    if (one.tag() != tag || !owner_exists(one)) continue;
    const Claim* const theirs = one.claim_of(key);
    throw cni::Error(kPortInUse, cat("map ", key.str(), ": in use by ", one.owner.as_owner(),
                                     theirs == nullptr ? "" : " at " + theirs->target_str()));
  }
}

// All networks of the container lose the port: rules of the next one would match instead. False:
// no state file says what they have.
bool put_losers(const StateDir& state, const Tag& tag, const Key& key,
                std::vector<Attachment>& losers) {
  bool is_known = false;
  for (Attachment& one : attachments_of(state, tag.container())) {
    const Claim* const theirs = one.claim_of(key);
    if (theirs == nullptr) continue;
    is_known = true;
    const auto known = std::ranges::find_if(
        losers, [&](const Attachment& loser) { return loser.owner == one.owner; });
    std::vector<Claim> lost{*theirs};
    if (known != losers.end()) {
      known->claims.push_back(lost[0]);
      continue;
    }
    one.claims = std::move(lost);
    losers.push_back(std::move(one));
  }
  return is_known;
}

}  // namespace

bool owner_exists(const Attachment& attachment) {
  const auto ns = netlink::NetNs::find(attachment.netns);
  if (!ns || ns->id().str() != attachment.netns_inode) return false;
  return netlink::RouteSocket(*ns).find(attachment.owner.ifname).has_value();
}

Plan plan(const Context& context, const Attachment& wanted, OnConflict policy) {
  Plan out{wanted, {}, wanted.claims, {}};
  for (const Backend* const backend : {&nft::kBackend, &iptables::kBackend}) {
    for (const auto& [key, tag] : backend->owners(context, wanted)) {
      if (tag.empty() || tag == wanted.tag()) continue;
      if (tag.is_of_sibling(wanted.tag())) {
        const auto has_key = [&port = key](const Claim& claim) { return claim.key == port; };
        std::erase_if(out.granted, has_key);
        continue;
      }
      if (policy != OnConflict::kReplace) refuse_owner(*context.state, tag, key);
      const bool is_known = put_losers(*context.state, tag, key, out.losers);
      if (!is_known && backend == &iptables::kBackend) out.lost.emplace_back(key, tag);
    }
  }
  return out;
}

void refuse_denied(const std::vector<DeniedPorts>& denied, const std::vector<Mapping>& mappings) {
  for (const Mapping& mapping : mappings) {
    for (const DeniedPorts& range : denied) {
      if (range.protocol && *range.protocol != mapping.protocol) continue;
      if (mapping.host_port < range.first || mapping.host_port > range.last) continue;
      throw cni::Error(kPortDenied, cat("map ", mapping.str(), ": deniedHostPorts contains '",
                                        range.str(), "'"));
    }
  }
}

void refuse_conflicts(const Conf& conf, const std::vector<Claim>& claims,
                      const std::string& container_id) {
  refuse_denied(conf.denied, conf.mappings);
  if (conf.on_conflict == OnConflict::kRefuse) refuse_listeners(claims, container_id);
}

}  // namespace portmap
