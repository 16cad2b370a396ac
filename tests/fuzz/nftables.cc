// What the kernel answers about tables, chains, rules and elements of nf_tables: a datagram of
// messages. Rules are also printed as nft prints them.
#include <linux/netfilter/nf_tables.h>

#include <stdexcept>

#include "netlink/nf/batch.h"
#include "netlink/nf/match.h"
#include "netlink/nf/userdata.h"
#include "netlink/types/error.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace netlink::nf;
using fuzz::require;
using netlink::Attributes;
using netlink::Message;
using netlink::Reply;

// Encodes it, unless it has something in it that is only read, or is too large to have been asked
// for.
template <class Fn>
void if_encodable(const Change& change, Fn&& fn) {
  try {
    for (const Message& message : encode(change)) fn(attributes_of(Reply(message.bytes())));
  } catch (const std::invalid_argument&) {
  } catch (const netlink::Error&) {
  }
}

void read_rule(TableFamily family, const Attributes& attributes) {
  Rule rule = decode_rule(family, attributes);
  require(rule.comment == rule_comment(attributes), "a comment is read in both ways");
  if (rule.comment.size() < 254) require(!text(Change(rule)).empty(), "a rule can be printed");
  for (const auto side : {Side::kSource, Side::kDestination}) {
    for (const auto f : {netlink::Family::kIpv4, netlink::Family::kIpv6}) {
      if (const auto cidr = address_of(rule.exprs, side, f)) {
        require(cidr->prefix <= cidr->ip.bits(), "a prefix is no longer than its address");
      }
    }
  }
  iifname_of(rule.exprs);
  target_of(rule.exprs);
  xt_comment_of(rule.exprs);
  rule.handle = 0;
  if_encodable(rule, [&](const Attributes& again) {
    require(decode_rule(family, again) == rule, "a rule is read as it was written");
  });
}

void read_elements(TableFamily family, const Attributes& attributes) {
  std::vector<Element> elements = decode_elements(attributes);
  for (const Element& one : elements) require(!text(one).empty(), "an element can be printed");
  std::vector<Element> read;
  bool encodable = false;
  if_encodable(AddElements{{family, "t", "s"}, elements}, [&](const Attributes& again) {
    encodable = true;
    for (Element& one : decode_elements(again)) read.push_back(std::move(one));
  });
  if (encodable) require(read == elements, "elements are read as they were written");
}

void read_chain(TableFamily family, const Attributes& attributes) {
  const Chain chain = decode_chain(family, attributes);
  if_encodable(chain, [&](const Attributes& again) {
    require(decode_chain(family, again) == chain, "a chain is read as it was written");
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Datagram datagram(data, size);
  for (const Reply& reply : netlink::Replies{datagram.bytes()}) {
    const Attributes attributes = attributes_of(reply);
    for (const TableFamily family : {TableFamily::kIp, TableFamily::kIp6}) {
      switch (reply.type() & 0xff) {
        case NFT_MSG_NEWRULE:
          read_rule(family, attributes);
          break;
        case NFT_MSG_NEWSETELEM:
          read_elements(family, attributes);
          break;
        case NFT_MSG_NEWCHAIN:
          read_chain(family, attributes);
          break;
        default:
          attributes.text(NFTA_TABLE_NAME);
          text_in(attributes.find(NFTA_TABLE_USERDATA).value, kUserdataComment);
      }
    }
  }
  return 0;
}
