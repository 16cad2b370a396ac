#include "netlink/nf/set.h"

#include <linux/if.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "netlink/nf/userdata.h"
#include "netlink/types/error.h"

namespace netlink::nf {

namespace {

// Entries of a set's userdata: enum nftnl_udata_set_types in libnftnl/udata.h.
constexpr std::uint8_t kKeyByteOrder = 0;
constexpr std::uint8_t kDataByteOrder = 1;
constexpr std::uint8_t kSetComment = 7;

struct TypeInfo {
  std::string_view name;
  std::uint32_t length;  // bytes
  bool host_order;
};

TypeInfo info_of(Type type) {
  switch (type) {
    case Type::kVerdict:
      return {"verdict", 0, false};
    case Type::kIpv4Address:
      return {"ipv4_addr", 4, false};
    case Type::kIpv6Address:
      return {"ipv6_addr", 16, false};
    case Type::kInetProto:
      return {"inet_proto", 1, false};
    case Type::kInetService:
      return {"inet_service", 2, false};
    case Type::kMark:
      return {"mark", 4, true};
    case Type::kIfname:
      return {"ifname", IFNAMSIZ, true};
  }
  throw std::invalid_argument("no such type of nft");
}

void put_value(Message& m, std::uint16_t attribute, const Bytes& value) {
  m.nest(attribute, [&] { m.put(NFTA_DATA_VALUE, value); });
}

Bytes value_in(const Attributes& element, std::uint16_t attribute) {
  const auto view = element.nested(attribute).find(NFTA_DATA_VALUE).value;
  return {view.begin(), view.end()};
}

void put_element(Message& m, const Element& element) {
  m.nest(NFTA_LIST_ELEM, [&] {
    put_value(m, NFTA_SET_ELEM_KEY, element.key);
    if (!element.data.empty()) put_value(m, NFTA_SET_ELEM_DATA, element.data);
    if (element.verdict) put_verdict(m, NFTA_SET_ELEM_DATA, *element.verdict);
    if (element.ends_interval) m.put_be32(NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
    if (!element.comment.empty()) {
      m.put(NFTA_SET_ELEM_USERDATA, comment_userdata(element.comment));
    }
  });
}

void put_element(Message& m, const Bytes& key) { put_element(m, Element{key}); }

void put_place(Message& m, const SetId& id) {
  m.put(NFTA_SET_ELEM_LIST_TABLE, id.table);
  m.put(NFTA_SET_ELEM_LIST_SET, id.set);
}

template <class Item>
std::vector<Message> split(Message start, const SetId& set, const std::vector<Item>& items) {
  constexpr std::size_t kFull = 32768;  // bytes; half of what an attribute can hold
  put_place(start, set);
  std::vector<Message> out;
  for (auto at = items.begin(); at != items.end();) {
    Message m = start;
    m.nest(NFTA_SET_ELEM_LIST_ELEMENTS, [&] {
      while (at != items.end() && m.bytes().size() < kFull) put_element(m, *at++);
    });
    out.push_back(std::move(m));
  }
  return out;
}

std::string kind_of(const Set& set) { return set.data ? "map" : "set"; }

}  // namespace

Type KeyType::address(Family family) {
  return family == Family::kIpv4 ? Type::kIpv4Address : Type::kIpv6Address;
}

std::uint32_t KeyType::id() const {
  if (parts_ == std::vector{Type::kVerdict}) return NFT_DATA_VERDICT;
  std::uint32_t id = 0;
  for (const Type part : parts_) id = id << 6 | static_cast<std::uint32_t>(part);
  return id;
}

std::uint32_t KeyType::length() const {
  if (parts_.size() == 1) return info_of(parts_.front()).length;
  std::size_t length = 0;
  for (const Type part : parts_) length += aligned(info_of(part).length);
  return static_cast<std::uint32_t>(length);
}

std::uint32_t KeyType::byte_order() const {
  if (parts_.size() != 1 || parts_.front() == Type::kVerdict) return 0;
  return info_of(parts_.front()).host_order ? 1 : 2;
}

std::string KeyType::str() const {
  std::string out;
  for (const Type part : parts_) out += cat(out.empty() ? "" : " . ", info_of(part).name);
  return out;
}

Bytes value_of(const Ip& ip) { return {ip.data(), ip.data() + ip.size()}; }
Bytes value_of_protocol(std::uint8_t protocol) { return {protocol}; }
Bytes value_of_port(std::uint16_t port) {
  return {static_cast<std::uint8_t>(port >> 8), static_cast<std::uint8_t>(port & 0xff)};
}

Bytes value_of_ifname(std::string_view name) {
  if (name.empty() || name.size() >= IFNAMSIZ) {
    throw std::invalid_argument(cat("no link can be called '", name, "'"));
  }
  Bytes out(name.begin(), name.end());
  out.resize(IFNAMSIZ);
  return out;
}

Bytes concatenate(std::initializer_list<Bytes> parts) {
  Bytes out;
  for (const Bytes& part : parts) {
    out.insert(out.end(), part.begin(), part.end());
    out.resize(aligned(out.size()));
  }
  return out;
}

std::string SetId::str() const { return cat(name_of(family), " ", table, " ", set); }

Message encode_set(const Set& set, std::uint32_t number) {
  Message m = nf_tables_message(NFT_MSG_NEWSET, NLM_F_CREATE, set.id.family);
  m.put(NFTA_SET_TABLE, set.id.table);
  m.put(NFTA_SET_NAME, set.id.set);
  std::uint32_t flags = 0;
  if (set.data) flags |= NFT_SET_MAP;
  if (set.intervals) flags |= NFT_SET_INTERVAL;
  m.put_be32(NFTA_SET_FLAGS, flags);
  m.put_be32(NFTA_SET_KEY_TYPE, set.key.id());
  m.put_be32(NFTA_SET_KEY_LEN, set.key.length());
  if (set.data) {
    m.put_be32(NFTA_SET_DATA_TYPE, set.data->id());
    m.put_be32(NFTA_SET_DATA_LEN, set.data->length());
  }
  m.put_be32(NFTA_SET_ID, number);
  // nft cannot list elements without the byte orders.
  Bytes userdata;
  append_number(userdata, kKeyByteOrder, set.key.byte_order());
  if (set.data) append_number(userdata, kDataByteOrder, set.data->byte_order());
  if (!set.comment.empty()) append_text(userdata, kSetComment, set.comment);
  m.put(NFTA_SET_USERDATA, userdata);
  return m;
}

Message encode_set(const DeleteSet& change) {
  Message m = nf_tables_message(NFT_MSG_DELSET, 0, change.id.family);
  m.put(NFTA_SET_TABLE, change.id.table);
  m.put(NFTA_SET_NAME, change.id.set);
  return m;
}

std::vector<Element> intervals_of(std::vector<Cidr> networks) {
  std::ranges::sort(networks);
  std::vector<Element> out;
  for (const Cidr& network : networks) {
    Bytes start = value_of(network.network().ip);
    if (!out.empty() && out.back().ends_interval && out.back().key == start) {
      out.pop_back();
    } else {
      out.push_back({std::move(start)});
    }
    const auto after = network.ip.broadcast(network.prefix).next();
    if (!after) continue;  // no end: the rest of the addresses
    out.push_back({value_of(*after)});
    out.back().ends_interval = true;
  }
  return out;
}

std::vector<Message> encode_elements(const AddElements& change) {
  const int flags = NLM_F_CREATE | (change.exclusive ? NLM_F_EXCL : 0);
  return split(nf_tables_message(NFT_MSG_NEWSETELEM, flags, change.set.family), change.set,
               change.elements);
}

std::vector<Message> encode_elements(const DeleteElements& change) {
  return split(nf_tables_message(NFT_MSG_DELSETELEM, 0, change.set.family), change.set,
               change.keys);
}

Message encode_query(const SetId& set, const std::optional<Bytes>& key) {
  Message m = nf_tables_message(NFT_MSG_GETSETELEM, key ? 0 : NLM_F_DUMP, set.family);
  put_place(m, set);
  if (key) m.nest(NFTA_SET_ELEM_LIST_ELEMENTS, [&] { put_element(m, *key); });
  return m;
}

std::vector<Element> decode_elements(const Attributes& attributes) {
  std::vector<Element> out;
  for (const Attribute& one : attributes.nested(NFTA_SET_ELEM_LIST_ELEMENTS)) {
    if (one.type != NFTA_LIST_ELEM) continue;
    const Attributes element = one.nested();
    Bytes key = value_in(element, NFTA_SET_ELEM_KEY);
    if (key.empty()) continue;
    Element read{std::move(key), value_in(element, NFTA_SET_ELEM_DATA),
                 text_in(element.find(NFTA_SET_ELEM_USERDATA).value, kUserdataComment)};
    read.ends_interval =
        (element.find(NFTA_SET_ELEM_FLAGS).be32() & NFT_SET_ELEM_INTERVAL_END) != 0;
    // The kernel uses the value if there are both (nft_data_init in net/netfilter/nf_tables_api.c).
    if (read.data.empty()) read.verdict = verdict_in(element.nested(NFTA_SET_ELEM_DATA));
    out.push_back(std::move(read));
  }
  return out;
}

bool lists_catch_all(const Attributes& attributes) {
  for (const Attribute& one : attributes.nested(NFTA_SET_ELEM_LIST_ELEMENTS)) {
    if ((one.nested().find(NFTA_SET_ELEM_FLAGS).be32() & NFT_SET_ELEM_CATCHALL) != 0) return true;
  }
  return false;
}

std::string text(const Set& set) {
  return cat(kind_of(set), " ", set.id.str(), " type ", set.key.str(),
             set.data ? cat(" : ", set.data->str()) : "", set.intervals ? " flags interval" : "",
             set.comment.empty() ? "" : cat(" comment \"", set.comment, "\""));
}

std::string text(const Element& element) {
  return cat("element ", words(element.key),
             element.data.empty() ? "" : cat(" : ", words(element.data)),
             element.verdict ? cat(" : ", text(*element.verdict)) : "",
             element.ends_interval ? " end" : "",
             element.comment.empty() ? "" : cat(" comment \"", element.comment, "\""));
}

}  // namespace netlink::nf
