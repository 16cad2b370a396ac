#include "plugins/common/firewall/pod_elements.h"

#include <algorithm>
#include <utility>

#include "libcni/common/hash.h"

namespace plugins {

namespace nf = netlink::nf;
using netlink::Family;
using netlink::Ip;
using netlink::kFamilies;

const nf::SetId& PodSets::of(Family family) const { return family == Family::kIpv4 ? v4 : v6; }

namespace {

// The start of an attachment's tag, OwnerTag::prefix().
std::string_view owner_in(std::string_view comment) {
  static const std::size_t kLength = cni::OwnerTag("", "", "").prefix().size();
  return cni::OwnerTag::is_tag(comment) ? comment.substr(0, kLength) : std::string_view();
}

nf::SetId more_of(const PodSets& sets, Family family) {
  nf::SetId id = sets.of(family);
  id.set += "_more";
  return id;
}

Family family_of(const nf::Element& one) {
  return one.key.size() == Ip::any(Family::kIpv4).size() ? Family::kIpv4 : Family::kIpv6;
}

nf::Bytes more_key(const nf::Bytes& address, std::string_view owner) {
  constexpr std::size_t kLength = 15;  // of a name of a link, which nft prints as text
  return nf::concatenate({address, nf::value_of_ifname(cni::sha512_hex(owner, kLength))});
}

nf::Element with_key(nf::Element one, nf::Bytes key) {
  one.key = std::move(key);
  return one;
}

/// Elements for an address in the sets of its family.
struct Seen {
  std::optional<nf::Element> main;
  std::optional<nf::Element> own;  ///< of the owner, under the key of main
  bool in_more = false;            ///< own is not main
};

Seen look_up(nf::NfSocket& socket, const PodSets& sets, std::string_view owner, const Ip& ip) {
  const nf::Bytes key = nf::value_of(ip);
  Seen out{.main = socket.elements(sets.of(ip.family()), {key}).front(), .own = {}};
  if (out.main && out.main->comment.starts_with(owner)) {
    out.own = out.main;
  } else if (out.main && !owner_in(out.main->comment).empty()) {
    auto more = socket.elements(more_of(sets, ip.family()), {more_key(key, owner)}).front();
    if (more) out.own = with_key(*std::move(more), key);
    out.in_more = out.own.has_value();
  }
  return out;
}

// Adds to batch the removal of those that match; returns the others.
std::vector<nf::Element> plan_remove_more(nf::NfSocket& socket, const nf::SetId& set,
                                          const MatchesTag& matches, nf::Batch& batch) {
  auto out = socket.all_elements(set);
  std::erase_if(out, [&](const nf::Element& one) {
    const bool is_gone = matches(one.comment);
    if (is_gone) batch.remove(set, {one.key});
    return is_gone;
  });
  return out;
}

// Takes the other owner that gets the address next.
std::optional<nf::Element> take_heir(std::vector<nf::Element>& more, const nf::Bytes& address) {
  const auto heir = std::ranges::find_if(more, [&](const nf::Element& one) {
    return std::equal(address.begin(), address.end(), one.key.begin());
  });
  if (heir == more.end()) return std::nullopt;
  nf::Element out = std::move(*heir);
  more.erase(heir);
  return out;
}

void plan_remove_main(const PodSets& sets, Family family, const nf::Bytes& key,
                      std::vector<nf::Element>& more, nf::Batch& batch) {
  batch.remove(sets.of(family), {key});
  auto heir = take_heir(more, key);
  if (!heir) return;
  batch.remove(more_of(sets, family), {heir->key});
  batch.add_new(sets.of(family), {with_key(*std::move(heir), key)});
}

}  // namespace

std::vector<std::optional<nf::Element>> find_elements(nf::NfSocket& socket, const PodSets& sets,
                                                      std::string_view owner,
                                                      const std::vector<Ip>& addresses) {
  std::vector<std::optional<nf::Element>> out;
  for (const Ip& ip : addresses) out.push_back(look_up(socket, sets, owner, ip).own);
  return out;
}

void plan_add_elements(nf::NfSocket& socket, const PodSets& sets,
                       const std::vector<nf::Element>& wanted, nf::Batch& batch) {
  for (const nf::Element& one : wanted) {
    const Family family = family_of(one);
    const Ip ip = Ip::from_bytes(one.key.data(), one.key.size());
    const Seen seen = look_up(socket, sets, owner_in(one.comment), ip);
    if (seen.own == one) continue;
    const nf::SetId more = more_of(sets, family);
    if (seen.in_more) batch.remove(more, {more_key(one.key, owner_in(one.comment))});
    const auto other = seen.main ? owner_in(seen.main->comment) : std::string_view();
    if (!other.empty() && other != owner_in(one.comment)) {
      batch.add(nf::Set{more, {nf::KeyType::address(family), nf::Type::kIfname}, sets.data});
      batch.add(more, {with_key(*seen.main, more_key(one.key, other))});
    }
    if (seen.main) batch.remove(sets.of(family), {one.key});
    batch.add_new(sets.of(family), {one});
  }
}

void plan_remove_elements_if(nf::NfSocket& socket, const PodSets& sets, const MatchesTag& matches,
                             nf::Batch& batch) {
  for (const Family family : kFamilies) {
    auto more = plan_remove_more(socket, more_of(sets, family), matches, batch);
    for (const nf::Element& one : socket.all_elements(sets.of(family))) {
      if (matches(one.comment)) plan_remove_main(sets, family, one.key, more, batch);
    }
  }
}

bool plan_remove_elements(nf::NfSocket& socket, const PodSets& sets, std::string_view owner,
                          const std::vector<Ip>& addresses, nf::Batch& batch) {
  const auto is_own = [&](const std::string& comment) { return comment.starts_with(owner); };
  std::vector<Seen> seen;
  for (const Ip& ip : addresses) seen.push_back(look_up(socket, sets, owner, ip));
  const bool has_all =
      std::ranges::all_of(seen, [](const Seen& one) { return one.own.has_value(); });
  if (addresses.empty() || !has_all) {
    plan_remove_elements_if(socket, sets, is_own, batch);
    return false;
  }
  for (const Family family : kFamilies) {
    std::optional<std::vector<nf::Element>> more;
    for (const Seen& one : seen) {
      if (family_of(*one.own) != family) continue;
      if (!more) more = plan_remove_more(socket, more_of(sets, family), is_own, batch);
      if (!one.in_more) plan_remove_main(sets, family, one.own->key, *more, batch);
    }
  }
  return true;
}

}  // namespace plugins
