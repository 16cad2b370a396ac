#include "cnitool/doctor/unlisted.h"

#include <algorithm>

#include "cnitool/doctor/facts.h"
#include "libcni/common/hash.h"

namespace tool::doctor {

namespace {

using cni::AttachmentKey;
using netlink::Ip;

constexpr std::size_t kTag = 33;  // "H1-H2" of cni::OwnerTag

std::string between(const std::string& text, std::string_view start, std::string_view end) {
  const auto from = text.find(start);
  if (from == text.npos) return {};
  const auto first = from + start.size();
  return text.substr(first, end.empty() ? text.npos : text.find(end, first) - first);
}

// As the alias spells it; it may have been cut off, so that only the hashes prove it.
AttachmentKey key_in(const std::string& alias) {
  return {between(alias, ", net: ", ", if: "), between(alias, ", id: ", ""),
          between(alias, ", if: ", ", id: ")};
}

class Search {
 public:
  explicit Search(const Node& node) : node_(node) {
    for (const AttachmentState& one : node.attachments) listed_.insert(tag_of(one.key));
    for (const SeenLink& link : node.seen.links) seen_.insert(link.alias.substr(0, kTag));
  }

  Unlisted run() {
    for (const SeenLink& link : node_.seen.links) consider(key_in(link.alias));
    for (const Pool& pool : node_.pools) {
      for (const Reservation& one : pool.reservations) {
        consider({pool.network, one.container_id, one.ifname},
                 has(pool.network, one.ip, one.ifname));
      }
    }
    for (const DhcpLease& one : node_.leases) {
      const auto ip = Ip::parse(one.address);
      consider(one.key, ip && has(one.key.network, *ip, one.key.ifname));
    }
    for (const StateFile& one : node_.states) consider(one.key, lives(one.key, one.netns));
    for (const MovedDevice& one : node_.devices) consider(one.key, lives(one.key, one.netns));
    for (const SeenLink& link : node_.seen.links) {
      const std::string tag = link.alias.substr(0, kTag);
      if (link.on_node && !listed_.contains(tag) && found_.insert(tag).second) {
        out_.links.push_back(link);
      }
    }
    return out_;
  }

 private:
  void consider(const AttachmentKey& key, bool lives = false) {
    if (key.network.empty() || key.container_id.empty()) return;
    const std::string tag = tag_of(key);
    if (listed_.contains(tag) || !(lives || seen_.contains(tag))) return;
    if (found_.insert(tag).second) out_.attachments.push_back(key);
  }

  // Whether an interface has the address, and it is not that of an attachment of the cache.
  bool has(const std::string& network, const Ip& ip, const std::string& ifname) const {
    return node_.seen.has(ip, ifname) &&
           std::none_of(node_.attachments.begin(), node_.attachments.end(), [&](const auto& one) {
             const auto& ips = one.result.ips;
             return one.is_alive() && one.key.network == network &&
                    std::any_of(ips.begin(), ips.end(),
                                [&](const cni::Address& address) { return address.cidr.ip == ip; });
           });
  }

  // Whether the namespace exists, and its path is not another container's by now. The pod can
  // rename the interface.
  bool lives(const AttachmentKey& key, const std::string& netns) const {
    return cni::liveness_of(netns, key.ifname) != cni::Liveness::kNoNamespace &&
           std::none_of(node_.attachments.begin(), node_.attachments.end(), [&](const auto& one) {
             return one.netns == netns && one.key.container_id != key.container_id;
           });
  }

  const Node& node_;
  std::set<std::string> listed_, seen_, found_;  // tags
  Unlisted out_;
};

}  // namespace

std::set<std::string> Unlisted::tags() const {
  std::set<std::string> out;
  for (const AttachmentKey& key : attachments) out.insert(tag_of(key));
  for (const SeenLink& link : links) out.insert(link.alias.substr(0, kTag));
  return out;
}

Unlisted unlisted(const Node& node) { return Search(node).run(); }

}  // namespace tool::doctor
