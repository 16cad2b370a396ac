#include "plugins/portmap/nftables.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>

#include "libcni/common/error.h"
#include "plugins/portmap/table.h"

namespace portmap::nft {

namespace {

using cni::cat;
using netlink::nf::Batch;
using netlink::nf::Bytes;
using netlink::nf::Element;
using netlink::nf::NfSocket;
using netlink::nf::SetId;

constexpr std::uint8_t kLoopback[] = {127, 0, 0, 0};
constexpr int kMaxAttempts = 5;

/// Elements by set, in the order of first use.
using Groups = std::vector<std::pair<SetId, std::vector<Element>>>;

void put(Groups& groups, const SetId& set, Element element) {
  for (auto& [id, elements] : groups) {
    if (id == set) {
      elements.push_back(std::move(element));
      return;
    }
  }
  groups.push_back({set, {std::move(element)}});
}

std::vector<Bytes> keys_of(const std::vector<Element>& elements) {
  std::vector<Bytes> out;
  for (const Element& element : elements) out.push_back(element.key);
  return out;
}

// Sources to masquerade: the pod and its subnet, which it would answer past the node's NAT, and
// 127.0.0.0/8, which the pod has too.
std::vector<Cidr> masqueraded(const AttachmentState& attachment, Family family) {
  std::vector<Cidr> out;
  if (const auto& pod = attachment.pod.of(family)) out.push_back(*pod);
  if (family == Family::kIpv4) out.push_back({Ip::from_bytes(kLoopback, sizeof kLoopback), 8});
  return out;
}

void put_claim(Groups& groups, const AttachmentState& attachment, const Claim& claim) {
  const std::string table = table_of(attachment.options);
  const std::string comment = attachment.owner.comment();
  const Key& key = claim.key;
  put(groups, set_of(Kind::kPorts, key, table), {ports_key(key), ports_data(claim), comment});
  if (!attachment.options.snat) return;
  if (attachment.options.masq_all) {
    put(groups, set_of(Kind::kMasqAll, key, table), {ports_key(key), {}, comment});
    return;
  }
  for (const Cidr& subnet : masqueraded(attachment, key.family)) {
    put(groups, set_of(Kind::kMasqFrom, key, table), {masq_from_key(key, subnet), {}, comment});
  }
}

Groups elements_of(const AttachmentState& attachment, const std::vector<Claim>& claims) {
  Groups out;
  for (const Claim& claim : claims) put_claim(out, attachment, claim);
  return out;
}

std::string tag_in(const std::string& comment) {
  constexpr std::size_t kTagLength = 50;
  return comment.substr(0, std::min(comment.find(','), kTagLength));
}

Ip address_in(const Bytes& bytes, std::size_t at, Family family) {
  return Ip::from_bytes(bytes.data() + at, family == Family::kIpv4 ? 4 : 16);
}

std::uint16_t port_in(const Bytes& bytes, std::size_t at) {
  return static_cast<std::uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

// The reverse of ports_key() and ports_data(); nullopt for an element of another form.
std::optional<Claim> claim_from(Family family, const Element& element) {
  const std::size_t address = family == Family::kIpv4 ? 4 : 16;
  const bool hostip = element.key.size() == address + 8;
  if ((!hostip && element.key.size() != 8) || element.data.size() != address + 4) {
    return std::nullopt;
  }
  const std::size_t at = hostip ? address : 0;
  Claim out{{family, static_cast<Protocol>(element.key[at]), port_in(element.key, at + 4)},
            address_in(element.data, 0, family),
            port_in(element.data, address)};
  if (hostip) out.key.address = address_in(element.key, 0, family);
  return out;
}

Family family_of(const SetId& set) {
  return set.family == table_family(Family::kIpv4) ? Family::kIpv4 : Family::kIpv6;
}

bool is_ports(const SetId& set) { return set.set.starts_with("ports"); }

/// Keys to delete, each once: a second deletion would fail the transaction.
class Removals {
 public:
  void put(const SetId& set, const Bytes& key) { keys_[set].insert({key.begin(), key.end()}); }
  void plan(Batch& batch) const {
    for (const auto& [set, keys] : keys_) {
      std::vector<Bytes> all;
      for (const std::string& key : keys) all.emplace_back(key.begin(), key.end());
      batch.remove(set, std::move(all));
    }
  }

 private:
  std::map<SetId, std::set<std::string>> keys_;
};

// Whether the element of a masquerading set is for the key.
bool is_about(const Bytes& element, const Key& key) {
  const Bytes port = ports_key({key.family, key.protocol, key.port});
  if (element.size() < port.size() + (key.address ? key.address->size() : 0)) return false;
  if (!std::equal(port.rbegin(), port.rend(), element.rbegin())) return false;
  return !key.address || address_in(element, 0, key.family) == *key.address;
}

// The replaced owner may be in another subnet. Its elements are found by the comment.
void remove_masquerading_of(NfSocket& socket, const SetId& ports, const Key& key,
                            const std::string& tag, Removals& removals) {
  for (const Kind kind : {Kind::kMasqFrom, Kind::kMasqAll, Kind::kHairpin}) {
    const SetId set = set_of(kind, key, ports.table);
    for (const Element& element : socket.all_elements(set)) {
      if (tag_in(element.comment) == tag && is_about(element.key, key)) {
        removals.put(set, element.key);
      }
    }
  }
}

// Elements of earlier versions in place of masq_from: the link that leads to the pod, and lo.
void put_hairpin(Groups& groups, const AttachmentState& attachment, const Claim& claim) {
  const Key& key = claim.key;
  const SetId set = set_of(Kind::kHairpin, key, table_of(attachment.options));
  for (const std::string& link : {attachment.device(key.family), std::string("lo")}) {
    if (!link.empty()) put(groups, set, {hairpin_key(key, link), {}, {}});
  }
}

// The elements that the attachment can have.
Groups possible_elements(const AttachmentState& attachment) {
  Groups out = elements_of(attachment, attachment.claims);
  if (!attachment.by_link) return out;
  for (const Claim& claim : attachment.claims) put_hairpin(out, attachment, claim);
  return out;
}

// Adds the elements that the attachment has to removals; returns the claims among them.
std::vector<Claim> collect(NfSocket& socket, const AttachmentState& attachment,
                           Removals& removals) {
  const std::string tag = attachment.owner.tag();
  std::vector<Claim> out;
  for (const auto& [set, elements] : possible_elements(attachment)) {
    for (const auto& found : socket.elements(set, keys_of(elements))) {
      if (!found || tag_in(found->comment) != tag) continue;
      removals.put(set, found->key);
      if (!is_ports(set)) continue;
      if (const auto claim = claim_from(family_of(set), *found)) out.push_back(*claim);
    }
  }
  return out;
}

/// A transaction that adds an attachment's elements, and removes those of replaced owners.
class AddTransaction {
 public:
  AddTransaction(NfSocket& socket, const AttachmentState& attachment,
                 const ResolveConflict& resolve_conflict)
      : socket_(socket), attachment_(attachment), resolve_(resolve_conflict) {}

  void plan(const std::optional<AttachmentState>& before, Batch& batch) {
    if (before) collect(socket_, *before, removals_);
    std::vector<Claim> ours;
    for (const Claim& claim : attachment_.claims) {
      if (may_have(claim)) ours.push_back(claim);
    }
    const Groups wanted = elements_of(attachment_, ours);
    for (const auto& [set, elements] : wanted) {
      const auto found = socket_.elements(set, keys_of(elements));
      for (const auto& element : found) {
        if (element) removals_.put(set, element->key);
      }
    }
    removals_.plan(batch);
    for (const auto& [set, elements] : wanted) batch.add(set, elements);
  }

  std::vector<Claim> taken() { return std::move(taken_); }

 private:
  bool may_have(const Claim& claim) {
    const SetId set = set_of(Kind::kPorts, claim.key, table_of(attachment_.options));
    const auto found = socket_.elements(set, {ports_key(claim.key)}).at(0);
    if (!found) return true;
    const std::string tag = tag_in(found->comment);
    if (tag == attachment_.owner.tag()) return true;
    const auto conflict = claim_from(claim.key.family, *found);
    if (conflict && resolve_({*conflict, tag}) == Resolution::kKeep) return false;
    if (conflict) taken_.push_back(*conflict);
    remove_masquerading_of(socket_, set, claim.key, tag, removals_);
    return true;
  }

  NfSocket& socket_;
  const AttachmentState& attachment_;
  const ResolveConflict& resolve_;
  Removals removals_;
  std::vector<Claim> taken_;
};

void ensure_tables(NfSocket& socket, const AttachmentState& attachment, Compare compare,
                   Batch& batch) {
  for (const Family family : netlink::kFamilies) {
    const bool used = std::any_of(attachment.claims.begin(), attachment.claims.end(),
                                  [&](const Claim& claim) { return claim.key.family == family; });
    if (used) ensure(socket, family, attachment, compare, batch);
  }
}

// Fast path: the ports have no owner. The kernel detects one (EEXIST).
bool add_fresh(NfSocket& socket, const AttachmentState& attachment) try {
  Batch batch;
  ensure_tables(socket, attachment, Compare::kSummary, batch);
  for (const auto& [set, elements] : elements_of(attachment, attachment.claims)) {
    batch.add_new(set, elements);
  }
  socket.commit(batch);
  return true;
} catch (const netlink::Error& e) {
  if (e.error() == EEXIST || e.error() == ENOENT) return false;
  throw;
}

std::string claimant(NfSocket& socket, const Key& key, const Options& options) {
  const SetId set = set_of(Kind::kPorts, key, table_of(options));
  const auto found = socket.elements(set, {ports_key(key)}).at(0);
  return found ? tag_in(found->comment) : "";
}

// Whether the tag is that of another attachment of the same container.
bool is_anothers(const std::string& tag, const std::string& own) {
  return tag != own && tag.ends_with(cat("-", Owner::container_hash_in(own)));
}

// own: the attachment's tag.
std::optional<std::string> flaw_of(NfSocket& socket, const AttachmentState& attachment,
                                   const Claim& claim, const std::string& own) {
  for (const auto& [set, elements] : elements_of(attachment, {claim})) {
    const auto found = socket.elements(set, keys_of(elements));
    const std::string what = cat(is_ports(set) ? "map '" : "set '", set.str(), "' ");
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (!found[i]) return cat(what, "has no element for ", claim.key.str());
      if (found[i]->data != elements[i].data) {
        const auto conflict = claim_from(claim.key.family, *found[i]);
        return cat(what, "maps ", claim.key.str(), " to ",
                   conflict ? conflict->target_str() : "no address", ", expected ",
                   claim.target_str());
      }
      if (tag_in(found[i]->comment) != own) {
        return cat(what, "has an element of another attachment for ", claim.key.str(), ": '",
                   found[i]->comment, "'");
      }
    }
  }
  return std::nullopt;
}

}  // namespace

bool usable(NfSocket& socket) {
  const Options usual;
  if (socket.has_table(table_family(Family::kIpv4), table_of(usual))) return true;
  Batch batch;
  put_table(Family::kIpv4, usual, batch);
  return socket.accepts(batch);
}

std::vector<Claim> add(NfSocket& socket, const AttachmentState& attachment,
                       const std::optional<AttachmentState>& before,
                       const ResolveConflict& resolve_conflict) {
  if (!before && add_fresh(socket, attachment)) return {};
  for (int attempt = 1;; ++attempt) {
    Batch batch;
    ensure_tables(socket, attachment, Compare::kRules, batch);
    AddTransaction transaction(socket, attachment, resolve_conflict);
    transaction.plan(before, batch);
    try {
      socket.commit(batch);
      return transaction.taken();
    } catch (const netlink::Error& e) {
      // Another program changed the table: plan again.
      const bool lost_a_race = e.error() == EEXIST || e.error() == ENOENT || e.error() == EBUSY;
      if (!lost_a_race || attempt == kMaxAttempts) throw;
    }
  }
}

std::vector<Claim> plan_remove(NfSocket& socket, const AttachmentState& attachment, Batch& batch) {
  Removals removals;
  std::vector<Claim> gone = collect(socket, attachment, removals);
  removals.plan(batch);
  return gone;
}

void plan_add(const AttachmentState& next, const std::vector<Claim>& claims, Batch& batch) {
  for (const auto& [set, elements] : elements_of(next, claims)) batch.add(set, elements);
}

std::set<std::string> owners(NfSocket& socket) {
  std::set<std::string> tags;
  Batch none;
  const auto note_tag = [&tags](const std::string& tag) {
    if (!tag.empty()) tags.insert(tag);
    return false;
  };
  plan_remove_if(socket, note_tag, none);
  return tags;
}

std::vector<Claim> plan_remove_if(NfSocket& socket,
                                  const std::function<bool(const std::string& tag)>& is_stale,
                                  Batch& batch) {
  std::vector<Claim> gone;
  Removals removals;
  for (const Family family : netlink::kFamilies) {
    for (const std::string& table : socket.tables(table_family(family))) {
      if (!table.starts_with(kTablePrefix)) continue;
      for (const SetId& set : all_sets(family, table)) {
        for (const Element& element : socket.all_elements(set)) {
          if (!is_stale(tag_in(element.comment))) continue;
          removals.put(set, element.key);
          if (!is_ports(set)) continue;
          if (const auto claim = claim_from(family, element)) gone.push_back(*claim);
        }
      }
    }
  }
  removals.plan(batch);
  return gone;
}

std::string claimant(NfSocket& socket, const Key& key) { return claimant(socket, key, Options{}); }

std::optional<std::string> missing(NfSocket& socket, const AttachmentState& attachment) {
  for (const Family family : netlink::kFamilies) {
    const bool used = std::any_of(attachment.claims.begin(), attachment.claims.end(),
                                  [&](const Claim& claim) { return claim.key.family == family; });
    if (!used) continue;
    std::string flaw = flaw_in(socket, family, attachment);
    if (!flaw.empty()) return flaw;
  }
  const std::string own = attachment.owner.tag();
  for (const Claim& claim : attachment.claims) {
    if (is_anothers(claimant(socket, claim.key, attachment.options), own)) continue;
    if (auto flaw = flaw_of(socket, attachment, claim, own)) return flaw;
  }
  return std::nullopt;
}

}  // namespace portmap::nft
