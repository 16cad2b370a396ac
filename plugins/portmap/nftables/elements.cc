#include "plugins/portmap/nftables/elements.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <map>
#include <string_view>

#include "libcni/common/error.h"
#include "netlink/nf/socket.h"
#include "plugins/names/tables.h"
#include "plugins/portmap/nftables/table.h"

namespace portmap::nft {

namespace {

namespace nf = netlink::nf;
using cni::cat;

constexpr int kMaxAttempts = 5;
constexpr const char* kMasqAll = "masq_all";

nf::SetId set_of(const char* name, const Key& key, const std::string& table) {
  return {table_family(key.family), table, cat(name, key.address ? "_hostip" : "")};
}

bool is_ports(const nf::SetId& set) { return set.set.starts_with("ports"); }

// A key: the address of the context, if any, `source`, protocol and port.
nf::Bytes with_port(const nf::Bytes& source, const Key& key) {
  return nf::concatenate({key.address ? nf::value_of(*key.address) : nf::Bytes{}, source,
                          nf::value_of_protocol(static_cast<std::uint8_t>(key.protocol)),
                          nf::value_of_port(key.port)});
}

nf::Bytes ports_key(const Key& key) { return with_port({}, key); }

nf::Bytes masq_from_key(const Key& key, const Cidr& subnet) {
  nf::Bytes range = nf::value_of(subnet.network().ip);
  const nf::Bytes last = nf::value_of(subnet.ip.broadcast(subnet.prefix));
  range.insert(range.end(), last.begin(), last.end());
  return with_port(range, key);
}

Tag tag_in(const std::string& comment) {
  constexpr std::size_t kTagLength = 50;
  return Tag(comment.substr(0, std::min(comment.find(','), kTagLength)));
}

Ip address_in(const nf::Bytes& bytes, std::size_t at, Family family) {
  return Ip::from_bytes(bytes.data() + at, Ip::any(family).size());
}

std::uint16_t port_in(const nf::Bytes& bytes, std::size_t at) {
  return static_cast<std::uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

// The claim of an element of the map; nullopt for other sets, and for elements of another form.
std::optional<Claim> claim_from(const nf::SetId& set, const nf::Element& element) {
  const bool is_v4 = set.family == table_family(Family::kIpv4);
  const Family family = is_v4 ? Family::kIpv4 : Family::kIpv6;
  const std::size_t address = Ip::any(family).size();
  const std::size_t at = set.set.ends_with("_hostip") ? address : 0;
  if (!is_ports(set) || element.key.size() != at + 8 || element.data.size() != address + 4) {
    return std::nullopt;
  }
  Claim out{{family, static_cast<Protocol>(element.key[at]), port_in(element.key, at + 4)},
            address_in(element.data, 0, family),
            port_in(element.data, address)};
  if (at != 0) out.key.address = address_in(element.key, 0, family);
  return out;
}

void put(Groups& groups, const nf::SetId& set, nf::Element element) {
  auto group = std::ranges::find_if(groups, [&](const auto& one) { return one.first == set; });
  if (group == groups.end()) group = groups.insert(group, {set, {}});
  group->second.push_back(std::move(element));
}

// The elements that the kernel has for these keys, in their order.
std::vector<std::optional<nf::Element>> found_in(nf::NfSocket& socket, const nf::SetId& set,
                                                 const std::vector<nf::Element>& wanted) {
  std::vector<nf::Bytes> keys;
  for (const nf::Element& element : wanted) keys.push_back(element.key);
  return socket.elements(set, keys);
}

/// Keys to delete, each once: a second deletion would fail the transaction.
class Removals {
 public:
  void put(const nf::SetId& set, const nf::Element& element) {
    keys_[set].insert({element.key.begin(), element.key.end()});
  }
  void plan(nf::Batch& batch) const {
    for (const auto& [set, keys] : keys_) {
      std::vector<nf::Bytes> all;
      for (const std::string& key : keys) all.emplace_back(key.begin(), key.end());
      batch.remove(set, std::move(all));
    }
  }

 private:
  std::map<nf::SetId, std::set<std::string>> keys_;
};

// The elements of elements_of(), and those of 0.1.0, which had the ports of `masqAll` in sets of
// their own.
Groups removable_elements(const Attachment& attachment) {
  Groups out = elements_of(attachment, attachment.claims);
  if (!attachment.options.snat || !attachment.options.masq_all) return out;
  for (const Claim& claim : attachment.claims) {
    const nf::SetId set = set_of(kMasqAll, claim.key, table_of(attachment.options));
    put(out, set, {ports_key(claim.key), {}, attachment.comment()});
  }
  return out;
}

// Adds the elements that the attachment has to removals; returns the claims among them.
std::vector<Claim> collect(nf::NfSocket& socket, const Attachment& attachment, Removals& removals) {
  const Tag tag = attachment.tag();
  std::vector<Claim> out;
  for (const auto& [set, elements] : removable_elements(attachment)) {
    for (const auto& found : found_in(socket, set, elements)) {
      if (!found || tag_in(found->comment) != tag) continue;
      removals.put(set, *found);
      if (const auto claim = claim_from(set, *found)) out.push_back(*claim);
    }
  }
  return out;
}

// Calls fn(set, element) for all elements of all tables.
template <class Fn>
void for_each_element(nf::NfSocket& socket, const Fn& fn) {
  for (const Family family : netlink::kFamilies) {
    for (const std::string& table : socket.tables(table_family(family))) {
      if (!table.starts_with(names::kHostPortTable)) continue;
      std::vector<nf::SetId> sets{{table_family(family), table, kMasqAll},
                                  {table_family(family), table, cat(kMasqAll, "_hostip")}};
      for (const nf::Set& set : sets_of(family, table)) sets.push_back(set.id);
      for (const nf::SetId& set : sets) {
        for (const nf::Element& element : socket.all_elements(set)) fn(set, element);
      }
    }
  }
}

// The prefix length of the subnet from `first` to `last`, addresses of `length` bytes.
unsigned prefix_between(const std::uint8_t* first, const std::uint8_t* last, std::size_t length) {
  unsigned prefix = 0;
  for (std::size_t i = 0; i < length; ++i) {
    const auto differing = static_cast<std::uint8_t>(first[i] ^ last[i]);
    prefix += static_cast<unsigned>(std::countl_zero(differing));
    if (differing != 0) break;
  }
  return prefix;
}

// Claims of a network with iptables conflict with those of the default table.
Owners owners(const Context& context, const Attachment& wanted) {
  Owners out;
  if (context.socket == nullptr) return out;
  Attachment ports = wanted;
  if (wanted.backend == BackendName::kIptables) ports.options = {};
  ports.options.snat = false;  // no elements but those of ports
  for (const auto& [set, elements] : elements_of(ports, ports.claims)) {
    for (const auto& found : found_in(*context.socket, set, elements)) {
      const auto claim = found ? claim_from(set, *found) : std::nullopt;
      if (claim) out[claim->key] = tag_in(found->comment);
    }
  }
  return out;
}

// Assumes at first that the keys are free; the kernel reports one that is not (EEXIST).
void plan_elements(nf::NfSocket& socket, const Plan& plan, bool replaces, nf::Batch& batch) {
  const Groups wanted = elements_of(plan.wanted, plan.granted);
  Removals removals;
  if (plan.before) collect(socket, *plan.before, removals);
  for (const Attachment& loser : plan.losers) collect(socket, loser, removals);
  for (const auto& [set, elements] : wanted) {
    if (!replaces) break;
    for (const auto& found : found_in(socket, set, elements)) {
      if (found) removals.put(set, *found);
    }
  }
  removals.plan(batch);
  for (const auto& [set, elements] : wanted) batch.add_new(set, elements);
}

void apply(const Context& context, const Plan& plan) {
  bool replaces = plan.before || !plan.losers.empty();
  for (int attempt = 1;; ++attempt) {
    nf::Batch batch;
    for (const Family family : netlink::kFamilies) {
      if (plan.wanted.has(family)) ensure_table(*context.socket, family, plan.wanted, batch);
    }
    plan_elements(*context.socket, plan, replaces, batch);
    try {
      return context.socket->commit(batch);
    } catch (const netlink::Error& e) {
      // Another program changed the table: plan again.
      const bool lost_a_race = e.error() == EEXIST || e.error() == ENOENT || e.error() == EBUSY;
      if (!lost_a_race || attempt == kMaxAttempts) throw;
      replaces = true;
    }
  }
}

std::vector<Claim> remove(const Context& context, const Attachment& attachment) {
  std::vector<Claim> gone;
  if (context.socket == nullptr) return gone;
  context.socket->commit_planned([&](nf::Batch& batch) {
    Removals removals;
    gone = collect(*context.socket, attachment, removals);
    removals.plan(batch);
  });
  return gone;
}

std::vector<Claim> gc(const Context& context, const Stale& stale) {
  std::vector<Claim> gone;
  if (context.socket == nullptr) return gone;
  context.socket->commit_planned([&](nf::Batch& batch) {
    gone.clear();
    Removals removals;
    for_each_element(*context.socket, [&](const nf::SetId& set, const nf::Element& element) {
      if (!stale.has_tag(tag_in(element.comment))) return;
      removals.put(set, element);
      if (const auto claim = claim_from(set, element)) gone.push_back(*claim);
    });
    removals.plan(batch);
  });
  return gone;
}

std::optional<std::string> missing_element(nf::NfSocket& socket, const Attachment& attachment,
                                           const Claim& claim) {
  for (const auto& [set, elements] : elements_of(attachment, {claim})) {
    const auto found = found_in(socket, set, elements);
    const std::string what = cat(is_ports(set) ? "map '" : "set '", set.str(), "' ");
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (!found[i]) return cat(what, "has no element for ", claim.key.str());
      if (found[i]->data != elements[i].data) {
        const auto other = claim_from(set, *found[i]);
        return cat(what, "maps ", claim.key.str(), " to ",
                   other ? other->target_str() : "no address", ", expected ", claim.target_str());
      }
      if (tag_in(found[i]->comment) == attachment.tag()) continue;
      return cat(what, "has an element of another attachment for ", claim.key.str(), ": '",
                 found[i]->comment, "'");
    }
  }
  return std::nullopt;
}

std::optional<std::string> missing(nf::NfSocket& socket, const Attachment& attachment) {
  for (const Family family : netlink::kFamilies) {
    if (!attachment.has(family)) continue;
    std::string flaw = flaw_in(socket, family, attachment);
    if (!flaw.empty()) return flaw;
  }
  Owners all = owners({&socket, nullptr}, attachment);
  for (const Claim& claim : attachment.claims) {
    if (all[claim.key].is_of_sibling(attachment.tag())) continue;
    if (auto flaw = missing_element(socket, attachment, claim)) return flaw;
  }
  return std::nullopt;
}

void check(const Context& context, const Attachment& attachment) {
  if (context.socket == nullptr) {
    throw cni::Error(cni::Code::kInternal,
                     cni::cat("check port mappings: ", netlink::nf::kNoNfTables));
  }
  if (const auto flaw =
          missing(*context.socket, attachment)) {  // in the reference plugin's sentence
    throw cni::Error(cni::Code::kInternal, "missing hostport rules in \"hostports\" chain", *flaw);
  }
}

}  // namespace

std::vector<nf::Set> sets_of(Family family, const std::string& table) {
  const nf::Type address =
      family == Family::kIpv4 ? nf::Type::kIpv4Address : nf::Type::kIpv6Address;
  const nf::KeyType target{address, nf::Type::kInetService};
  const auto set = [&](const char* name, const nf::KeyType& key,
                       std::optional<nf::KeyType> data = {}) {
    return nf::Set{{table_family(family), table, name}, key, std::move(data)};
  };
  return {set("ports", {nf::Type::kInetProto, nf::Type::kInetService}, target),
          set("ports_hostip", {address, nf::Type::kInetProto, nf::Type::kInetService}, target),
          set("masq_from", {address, address, nf::Type::kInetProto, nf::Type::kInetService}),
          set("masq_from_hostip",
              {address, address, address, nf::Type::kInetProto, nf::Type::kInetService})};
}

Groups elements_of(const Attachment& attachment, const std::vector<Claim>& claims) {
  const std::string table = table_of(attachment.options);
  const std::string comment = attachment.comment();
  Groups out;
  for (const Claim& claim : claims) {
    const nf::Bytes target =
        nf::concatenate({nf::value_of(claim.target), nf::value_of_port(claim.target_port)});
    put(out, set_of("ports", claim.key, table), {ports_key(claim.key), target, comment});
    const nf::SetId masq_from = set_of("masq_from", claim.key, table);
    for (const Cidr& subnet : masqueraded(attachment, claim.key.family)) {
      put(out, masq_from, {masq_from_key(claim.key, subnet), {}, comment});
    }
  }
  return out;
}

// The pod and its subnet, which it would answer past the node's NAT, and 127.0.0.0/8, which the pod
// has too. With masqAll every address.
std::vector<Cidr> masqueraded(const Attachment& attachment, Family family) {
  if (!attachment.options.snat) return {};
  if (attachment.options.masq_all) return {{Ip::any(family), 0}};
  std::vector<Cidr> out;
  if (const auto& pod = attachment.pod.of(family)) out.push_back(*pod);
  if (family == Family::kIpv4) out.push_back(*Cidr::parse("127.0.0.0/8"));
  return out;
}

std::set<unsigned> prefixes_of(nf::NfSocket& socket, Family family, const std::string& table) {
  const std::size_t length = Ip::any(family).size();
  std::set<unsigned> out;
  for (const nf::Set& set : sets_of(family, table)) {
    if (is_ports(set.id)) continue;
    for (const nf::Element& element : socket.all_elements(set.id)) {
      if (element.key.size() != set.key.length()) continue;  // another program made the set
      const std::uint8_t* const last = element.key.data() + element.key.size() - 8 - length;
      if (Ip::from_bytes(last, length).is_loopback()) continue;
      out.insert(prefix_between(last - length, last, length));
    }
  }
  return out;
}

std::set<Tag> all_owners(nf::NfSocket& socket) {
  std::set<Tag> tags;
  for_each_element(socket, [&](const nf::SetId&, const nf::Element& element) {
    Tag tag = tag_in(element.comment);
    if (!tag.empty()) tags.insert(std::move(tag));
  });
  return tags;
}

const Backend kBackend{owners, apply, remove, check, gc};

}  // namespace portmap::nft
