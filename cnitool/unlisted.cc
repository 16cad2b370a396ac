#include "cnitool/unlisted.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "cnitool/delegate.h"
#include "cnitool/find_by.h"
#include "cnitool/pool.h"
#include "libcni/common/dir.h"
#include "libcni/common/hash.h"
#include "netlink/route/socket.h"
#include "netlink/types/error.h"
#include "netlink/types/fd.h"

namespace tool {

namespace {

using cni::AttachmentKey;
using cni::OwnerTag;
using netlink::Link;

std::string text_of(const std::string& path) {
  try {
    return netlink::read_file(path).value_or("");
  } catch (const netlink::Error&) {  // the process ends
    return "";
  }
}

// Adds the words of 64 hexadecimal digits.
void add_ids(const std::string& text, std::set<std::string>& out) {
  constexpr const char* kDigits = "0123456789abcdef";
  constexpr std::size_t kLength = 64;
  for (auto at = text.find_first_of(kDigits); at != text.npos;) {
    const auto end = std::min(text.find_first_not_of(kDigits, at), text.size());
    if (end - at == kLength) out.insert(text.substr(at, kLength));
    at = text.find_first_of(kDigits, end);
  }
}

/// The IDs of containers, as control groups and arguments of processes have them: an alias has room
/// for the beginning of one alone where the network's name is long.
class ContainerIds {
 public:
  /// Empty: none that begins so has that tag.
  std::string whole(const std::string& start, const AttachmentKey& key, const std::string& tag) {
    if (!ids_) read();
    for (auto at = ids_->lower_bound(start); at != ids_->end() && at->starts_with(start); ++at) {
      if (AttachmentKey{key.network, *at, key.ifname}.tag() == tag) return *at;
    }
    return {};
  }

 private:
  void read() {
    ids_.emplace();
    for (const std::string& process : cni::names_in("/proc")) {
      if (process.find_first_not_of("0123456789") != process.npos) continue;
      add_ids(text_of(cat("/proc/", process, "/cgroup")), *ids_);
      add_ids(text_of(cat("/proc/", process, "/cmdline")), *ids_);
    }
  }
  std::optional<std::set<std::string>> ids_;
};

// Empty: it is no alias of an attachment, or does not even have the name of the network.
std::optional<AttachmentKey> key_in(const std::string& alias, ContainerIds& ids) {
  constexpr std::string_view kIf = ", if: ", kId = ", id: ";
  const std::string network = OwnerTag::is_tag(alias) ? OwnerTag::network_in(alias) : "";
  if (network.empty()) return std::nullopt;
  auto [id, ifname] = cni::owner_in(alias, network);
  if (!id.empty()) return AttachmentKey{network, std::move(id), std::move(ifname)};
  const auto at = alias.rfind(kIf), id_at = alias.rfind(kId);
  if (id_at == alias.npos || id_at < at) return AttachmentKey{network, "", ""};
  AttachmentKey out{network, "", alias.substr(at + kIf.size(), id_at - at - kIf.size())};
  out.container_id = ids.whole(alias.substr(id_at + kId.size()), out, OwnerTag::prefix_in(alias));
  return out;
}

class Finder {
 public:
  Finder(const Sightings& seen, const std::vector<cni::CachedAttachment>& cached) {
    for (const auto& one : cached) tags_.insert(one.key.tag());
    for (const SeenNamespace& one : seen.namespaces) {
      if (one.nsid) by_nsid_.emplace(*one.nsid, &one);
    }
    for (const Link& veth : seen.veths) add(veth);
    for (const SeenNamespace& one : seen.namespaces) add(one);
  }
  std::vector<Unlisted> take() { return std::move(out_); }

 private:
  void add(const std::string& alias, Unlisted one) {
    auto key = key_in(alias, ids_);
    if (!key || !tags_.insert(OwnerTag::prefix_in(alias)).second) return;
    one.key = *std::move(key);
    one.alias = alias;
    out_.push_back(std::move(one));
  }

  void add(const Link& veth) {
    Unlisted one{.key = {}, .alias = {}, .host_veth = veth.name, .netns = {}, .addresses = {}};
    const auto found = by_nsid_.find(veth.peer_nsid.value_or(-1));
    if (found != by_nsid_.end()) {
      one.netns = found->second->path;
      const auto* const link = find_by(found->second->links, &SeenLink::index, veth.peer_index);
      if (link != nullptr) one.addresses = link->addresses;
    }
    add(veth.alias, std::move(one));
  }

  void add(const SeenNamespace& pod) {
    std::set<std::string> networks;
    for (const SeenLink& link : pod.links) {
      const std::string tag = OwnerTag::prefix_in(link.alias);
      if (!link.has_parent_outside || tag.empty() || tags_.contains(tag)) continue;
      const std::string network = OwnerTag::network_in(link.alias);
      const std::string id = cni::owner_in(link.alias, network).container_id;
      const bool is_its = pod.owners.empty() || pod.owners.contains(id);
      if (!is_its || !networks.insert(network).second) continue;
      add(link.alias, {{}, {}, {}, pod.path, link.addresses});
    }
  }

  ContainerIds ids_;
  std::set<std::string> tags_;  // of those that are known
  std::map<int, const SeenNamespace*> by_nsid_;
  std::vector<Unlisted> out_;
};

// The IPAM plugins of a network, with the configs that they get.
cni::NetworkList ipam_of(const cni::NetworkList& list) {
  cni::NetworkList out;
  out.name = list.name;
  out.version = cni::str(cni::kNewest);  // of the result, which may have several addresses
  for (const cni::PluginConf& plugin : list.plugins) {
    const cni::PluginConf made = effective(plugin);
    const std::string type = ipam_type_of(made);
    if (!type.empty()) out.plugins.push_back({.type = type, .conf = made.conf});
  }
  return out;
}

// Whether the link, or the namespace, still is there.
bool lives(const Unlisted& one) {
  if (one.host_veth.empty()) return netlink::NetNs::find(one.netns).has_value();
  netlink::RouteSocket node;
  const auto link = node.find(one.host_veth);
  return link && link->alias == one.alias && link->peer_nsid &&
         node.has_namespace(*link->peer_nsid);
}

cni::Runtime::Shown shown_of(const Unlisted& one) {
  cni::Runtime::Shown out{
      .target = {.container_id = one.key.container_id,
                 .netns = one.netns,
                 .ifname = one.key.ifname},
      .result = {.interfaces = {{.name = one.key.ifname, .sandbox = one.netns}}},
      .lives = [one] { return lives(one); }};
  for (const netlink::Cidr& cidr : one.addresses) {
    if (!cidr.ip.is_link_local()) out.result.ips.push_back({.cidr = cidr, .interface = 0});
  }
  return out;
}

std::string why_not(const Unlisted& one) {
  if (one.netns.empty()) {
    return cat("the namespace behind '", one.host_veth,
               "' cannot be seen from this mount namespace: run cnitool in that of the node");
  }
  if (!one.key.container_id.empty()) return {};
  return cat("the alias of its link in '", one.netns,
             "' has no room for its container ID, and no process has it: restart the pod");
}

}  // namespace

std::vector<Unlisted> unlisted_in(const Sightings& seen,
                                  const std::vector<cni::CachedAttachment>& cached) {
  return Finder(seen, cached).take();
}

std::vector<Repaired> restore_leases(const std::vector<Unlisted>& all,
                                     const cni::Networks& networks, const cni::Runtime& runtime,
                                     bool dry_run) {
  std::vector<Repaired> out;
  for (const Unlisted& one : all) {
    const auto* const list = find_by(networks.lists, &cni::NetworkList::name, one.key.network);
    if (list == nullptr) continue;
    const cni::NetworkList ipam = ipam_of(*list);
    if (ipam.plugins.empty()) continue;
    Repaired done{one.key, RepairResult::kFailed, {}, why_not(one)};
    done.is_unseen = one.netns.empty();
    if (done.why.empty()) {
      try {
        auto report = runtime.restore(ipam, shown_of(one), dry_run);
        if (!report) continue;
        done.report = *std::move(report);
        done.outcome = RepairResult::kOk;
        if (!done.report.found.empty()) {
          done.outcome = dry_run ? RepairResult::kBroken : RepairResult::kRepaired;
        }
      } catch (const cni::Error& e) {
        done.report.error = e;
      }
      if (done.report.error) done.outcome = RepairResult::kFailed;
    }
    out.push_back(std::move(done));
  }
  return out;
}

}  // namespace tool
