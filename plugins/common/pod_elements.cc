#include "plugins/common/pod_elements.h"

#include <algorithm>
#include <utility>

#include "libcni/common/hash.h"

namespace plugins {

using netlink::Family;
using netlink::Ip;
using netlink::kFamilies;
using netlink::nf::Batch;
using netlink::nf::Bytes;
using netlink::nf::Element;
using netlink::nf::NfSocket;
using netlink::nf::SetId;

const SetId& PodSets::of(Family family) const { return family == Family::kIpv4 ? v4 : v6; }

std::vector<std::optional<Element>> find_elements(NfSocket& socket, const PodSets& sets,
                                                  const std::vector<Ip>& addresses) {
  std::vector<std::optional<Element>> out;
  for (const Ip& ip : addresses) {
    const Bytes key = netlink::nf::value_of(ip);
    out.push_back(socket.elements(sets.of(ip.family()), {key}).front());
  }
  return out;
}

void plan_add_elements(NfSocket& socket, const PodSets& sets, const std::vector<Element>& wanted,
                       Batch& batch) {
  for (const Element& one : wanted) {
    const SetId& set = one.key.size() == Ip::any(Family::kIpv4).size() ? sets.v4 : sets.v6;
    const auto seen = socket.elements(set, {one.key}).front();
    if (seen == one) continue;
    if (seen) batch.remove(set, {one.key});
    batch.add_new(set, {one});
  }
}

void plan_remove_elements_if(NfSocket& socket, const PodSets& sets, const MatchesTag& matches,
                             Batch& batch) {
  for (const Family family : kFamilies) {
    std::vector<Bytes> keys;
    for (Element& one : socket.all_elements(sets.of(family))) {
      if (matches(one.comment)) keys.push_back(std::move(one.key));
    }
    if (!keys.empty()) batch.remove(sets.of(family), std::move(keys));
  }
}

bool plan_remove_elements(NfSocket& socket, const PodSets& sets, std::string_view owner,
                          const std::vector<Ip>& addresses, Batch& batch) {
  const auto is_own = [&](const std::string& comment) { return comment.starts_with(owner); };
  const auto seen = find_elements(socket, sets, addresses);
  const bool all_own = std::all_of(seen.begin(), seen.end(), [&](const auto& element) {
    return element && is_own(element->comment);
  });
  if (addresses.empty() || !all_own) {
    plan_remove_elements_if(socket, sets, is_own, batch);
    return false;
  }
  for (const Ip& ip : addresses) {
    batch.remove(sets.of(ip.family()), {netlink::nf::value_of(ip)});
  }
  return true;
}

StaleTags::StaleTags(const std::string& network, const std::vector<cni::Attachment>& valid) {
  const cni::OwnerTag any(network, "", "");
  start_ = netlink::cat(any.network_hash, "-");
  length_ = any.prefix().size();
  for (const auto& one : valid) {
    keep_.insert(cni::OwnerTag(network, one.container_id, one.ifname).prefix());
  }
}

bool StaleTags::operator()(const std::string& tag) const {
  return tag.starts_with(start_) && !keep_.contains(tag.substr(0, length_));
}

}  // namespace plugins
