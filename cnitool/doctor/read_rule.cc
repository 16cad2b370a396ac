#include "cnitool/doctor/read_rule.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "netlink/nf/match.h"
#include "netlink/types/error.h"

namespace tool::doctor {

namespace {

namespace nf = netlink::nf;
using netlink::cat;
using netlink::Cidr;
using netlink::Family;
using Effect = ForwardRule::Effect;

// linux/netfilter.h and linux/netfilter/nf_tables.h
constexpr std::int32_t kDropped = 0, kAccept = 1, kQueue = 3, kJump = -3, kGoto = -4, kReturn = -5,
                       kVerdictMask = 0xff;
constexpr std::uint32_t kMarkKey = 3, kIncoming = 4, kOutgoing = 5, kIncomingName = 6,
                        kOutgoingName = 7, kFamilyKey = 15, kProtocolKey = 16;
constexpr std::uint32_t kNetworkHeader = 1, kTransportHeader = 2;
constexpr std::uint32_t kEqual = 0, kNotEqual = 1;
constexpr std::uint32_t kStateKey = 0, kStatusKey = 2;
constexpr std::uint32_t kProtocolOffset = 9;  // RFC 791, section 3.1
constexpr std::uint32_t kDnatStatus = 32;     // IPS_DST_NAT

// "veth*" for a comparison with the beginning of a name.
std::string link_in(const nf::Bytes& bytes) {
  const std::string text(bytes.begin(), bytes.end());
  const auto end = text.find('\0');
  return end == std::string::npos && text.size() < IFNAMSIZ ? text + '*' : text.substr(0, end);
}

std::string link_of_index(const nf::Bytes& bytes) {
  unsigned index = 0;
  char name[IFNAMSIZ] = {};
  if (bytes.size() != sizeof index) return {};
  std::memcpy(&index, bytes.data(), sizeof index);
  return ::if_indextoname(index, name) == nullptr ? "" : name;
}

std::uint32_t number_in(const nf::Bytes& bytes) {
  std::uint32_t out = 0;
  std::memcpy(&out, bytes.data(), std::min(bytes.size(), sizeof out));
  return out;
}

// The match takes a part of anybody's traffic, never the whole.
bool is_of_part(const std::string& match) {
  constexpr const char* kParts[] = {"tcp",       "udp",   "icmp",      "icmp6",
                                    "multiport", "limit", "quota",     "length",
                                    "hashlimit", "time",  "statistic", "connlimit"};
  return std::ranges::find(kParts, match) != std::end(kParts);
}

bool has_catch_all(nf::NfSocket& socket, const nf::SetId& set) {
  bool out = false;
  const auto look = [&](const netlink::Attributes& found) { out |= nf::lists_catch_all(found); };
  socket.dump(nf::encode_query(set, std::nullopt), cat("list elements '", set.str(), "'"), look);
  return out;
}

/// Reads the expressions of a rule. Whatever it does not know makes the rule narrow.
class RuleReader {
 public:
  RuleReader(nf::NfSocket& socket, const nf::Rule& rule) : socket_(socket), rule_(rule) {
    if (rule.chain.family == nf::TableFamily::kIp) out_.family = Family::kIpv4;
    if (rule.chain.family == nf::TableFamily::kIp6) out_.family = Family::kIpv6;
    out_.chain = rule.chain.chain;
  }

  ForwardRule run() {
    for (const auto& expr : rule_.exprs) {
      std::visit([this](const auto& one) { read(one); }, expr);
    }
    return std::move(out_);
  }

 private:
  enum class Loaded {
    kNothing,
    kIn,
    kOut,
    kInIndex,
    kOutIndex,
    kSource,
    kDestination,
    kFamily,
    kProtocol,
    kState,
    kStatus,
    kPacketMark,
    kPart,
    kOther
  };

  void narrow() {
    out_.is_narrow = true;
    out_.has_other_sources |= loaded_ == Loaded::kSource;
  }
  void load(Loaded what) {
    loaded_ = what;
    mask_.reset();
  }
  void read(const nf::Meta& meta) {
    if (meta.set) return load(Loaded::kOther);
    load(meta.key == kIncomingName   ? Loaded::kIn
         : meta.key == kOutgoingName ? Loaded::kOut
         : meta.key == kIncoming     ? Loaded::kInIndex
         : meta.key == kOutgoing     ? Loaded::kOutIndex
         : meta.key == kFamilyKey    ? Loaded::kFamily
         : meta.key == kProtocolKey  ? Loaded::kProtocol
         : meta.key == kMarkKey      ? Loaded::kPacketMark
                                     : Loaded::kOther);
  }
  void read(const nf::Ct& ct) {
    load(ct.key == kStateKey    ? Loaded::kState
         : ct.key == kStatusKey ? Loaded::kStatus
                                : Loaded::kOther);
  }
  void read(const nf::Payload& payload) {
    const bool v4 = out_.family == Family::kIpv4;
    const std::uint32_t source = v4 ? 12 : 8, destination = v4 ? 16 : 24;
    const bool is_header = out_.family && payload.base == kNetworkHeader;
    load(payload.base == kTransportHeader                       ? Loaded::kPart
         : is_header && payload.offset == source                ? Loaded::kSource
         : is_header && payload.offset == destination           ? Loaded::kDestination
         : is_header && v4 && payload.offset == kProtocolOffset ? Loaded::kProtocol
                                                                : Loaded::kOther);
    prefix_ = payload.len * 8;
  }
  void read(const nf::Bitwise& bits) {
    mask_ = number_in(bits.mask);
    prefix_ = 0;
    for (const std::uint8_t byte : bits.mask) prefix_ += static_cast<unsigned>(std::popcount(byte));
  }
  void read(const nf::Cmp& cmp) {
    const bool differs = cmp.op == kNotEqual;
    if (loaded_ == Loaded::kPart) {
      out_.is_part = true;
    } else if (cmp.op != kEqual && !differs) {
      narrow();
    } else if (loaded_ == Loaded::kFamily && !cmp.data.empty() && !differs) {
      out_.family = cmp.data[0] == AF_INET ? Family::kIpv4 : Family::kIpv6;
    } else if (loaded_ == Loaded::kProtocol && !cmp.data.empty()) {
      take_protocol(out_, cmp.data[0], differs);
    } else if (loaded_ == Loaded::kPacketMark) {
      take_mark(out_, number_in(cmp.data), differs);
    } else if (loaded_ == Loaded::kState || loaded_ == Loaded::kStatus) {
      take_connection(number_in(cmp.data), differs);
    } else {
      add(cmp.data, differs);
    }
  }
  // "ct state new" is [ bitwise & 8 ] [ cmp neq 0 ], and "ct state == new" [ cmp eq 8 ].
  void take_connection(std::uint32_t value, bool differs) {
    const std::uint32_t bits = value != 0 ? value : mask_.value_or(0);
    const bool is_inverted = value != 0 ? differs : !differs;
    if (loaded_ == Loaded::kState) {
      take_states(out_, bits, is_inverted);
    } else if (bits == kDnatStatus) {
      take_dnat(out_, is_inverted);
    } else {
      narrow();
    }
  }
  bool is_link() const {
    return loaded_ == Loaded::kIn || loaded_ == Loaded::kOut || loaded_ == Loaded::kInIndex ||
           loaded_ == Loaded::kOutIndex;
  }
  bool is_address() const { return loaded_ == Loaded::kSource || loaded_ == Loaded::kDestination; }
  void read(const nf::Lookup& lookup) {
    const nf::SetId set{rule_.chain.family, rule_.chain.table, lookup.set};
    if (loaded_ == Loaded::kState) return look_up_states(set, lookup);
    if (loaded_ == Loaded::kPart && !lookup.dreg) {
      out_.is_part = true;
      return;
    }
    const bool is_whole = out_.family && prefix_ == netlink::Ip::any(*out_.family).bits();
    if (lookup.dreg || !(is_link() || (is_address() && is_whole))) {
      if (lookup.dreg) out_.effect = Effect::kAccept;  // for all that is known
      return narrow();
    }
    out_.has_other_sources |= lookup.inverted && loaded_ == Loaded::kSource;
    auto elements = socket_.all_elements(set);
    auto& links = links_of(lookup.inverted);
    auto& spans = spans_of(lookup.inverted);
    if (has_catch_all(socket_, set)) {
      if (is_link()) return links.push_back("*");
      return spans.push_back(AddressSpan::of({netlink::Ip::any(*out_.family), 0}));
    }
    if (is_link()) {
      for (const nf::Element& one : elements) {
        const bool is_name = loaded_ == Loaded::kIn || loaded_ == Loaded::kOut;
        const std::size_t size = is_name ? IFNAMSIZ : sizeof(std::uint32_t);
        one.key.size() == size ? add(one.key, lookup.inverted) : narrow();  // of several parts
      }
    } else {
      add_spans(elements, spans);
    }
    if (!lookup.inverted && !out_.is_narrow && (is_link() ? links.empty() : spans.empty()))
      out_.is_of_others = true;
  }
  // A set of states, or a map of verdicts by them, of which that for replies counts: a new
  // connection that it accepts is one of anybody's.
  void look_up_states(const nf::SetId& set, const nf::Lookup& lookup) {
    std::uint32_t states = 0;
    for (const nf::Element& one : socket_.all_elements(set)) {
      const bool accepts = one.verdict && one.verdict->code == kAccept;
      if (!lookup.dreg || accepts) states |= number_in(one.key);
    }
    take_states(out_, states, lookup.inverted);
    if (lookup.dreg) out_.effect = Effect::kAccept;
  }
  // An interval is an element where it begins and one behind its end, which may be the begin of
  // another; that up to the last address has no end.
  void add_spans(std::vector<nf::Element>& elements, std::vector<AddressSpan>& spans) {
    const bool has_ends =
        std::ranges::any_of(elements, [](const nf::Element& one) { return one.ends_interval; });
    std::ranges::sort(elements, [](const nf::Element& a, const nf::Element& b) {
      return a.key == b.key ? a.ends_interval && !b.ends_interval : a.key < b.key;
    });
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const nf::Bytes& key = elements[i].key;
      if (elements[i].ends_interval) continue;
      if (key.size() != netlink::Ip::any(*out_.family).size()) {  // of several parts
        narrow();
        continue;
      }
      AddressSpan span{netlink::Ip::from_bytes(key.data(), key.size()), {}};
      span.last = span.first;
      if (has_ends && i + 1 < elements.size()) {
        const nf::Bytes& end = elements[i + 1].key;
        span.last = netlink::Ip::from_bytes(end.data(), end.size()).prev().value_or(span.first);
      } else if (has_ends || span.first.is_unspecified()) {  // 0.0.0.0/0 has no other element
        span.last = span.first.broadcast(0);
      }
      spans.push_back(span);
    }
  }
  void read(const nf::Verdict& verdict) {
    out_.effect = verdict.code == kAccept    ? Effect::kAccept
                  : verdict.code == kDropped ? Effect::kDrop
                  : verdict.code == kReturn  ? Effect::kReturn
                                             : Effect::kNone;
    out_.is_goto = verdict.code == kGoto;
    if (verdict.code == kJump || verdict.code == kGoto) out_.jump = verdict.chain;
    if ((verdict.code & kVerdictMask) == kQueue && verdict.code > 0) queue();
  }
  // A program of the node decides.
  void queue() {
    out_.effect = Effect::kAccept;
    narrow();
  }
  void reject() {
    out_.effect = Effect::kDrop;
    out_.rejects = true;
  }
  void read(const nf::Xt& xt) {
    if (xt.target) {
      if (xt.name == "REJECT") reject();
      if (xt.name == "NFQUEUE") queue();
    } else if (is_of_part(xt.name)) {
      out_.is_part = true;
    } else if (const auto states = nf::xt_states_of(xt)) {
      take_conntrack(*states);
    } else if (const auto mark = nf::xt_mark_of(xt)) {
      take_mark(out_, mark->mark, mark->inverted);
    } else if (xt.name != "comment") {
      narrow();
    }
  }
  void take_conntrack(const nf::XtStates& states) {
    if (states.mask == nf::kXtStateDnat) return take_dnat(out_, states.inverted);
    if ((states.mask & nf::kXtStateDnat) != 0) return narrow();
    take_states(out_, states.mask, states.inverted);
  }
  void read(const nf::Unknown& unknown) {
    if (unknown.name == "reject") {
      reject();
    } else if (unknown.name == "queue") {
      queue();
    } else if (unknown.name == "limit" || unknown.name == "quota" || unknown.name == "connlimit") {
      out_.is_part = true;
    } else if (unknown.name != "log" && unknown.name != "flow_offload") {
      narrow();
    }
  }
  void read(const nf::Counter& /*counter*/) {}
  void read(const nf::Immediate& /*value*/) {}  // for what a statement sets
  template <class Other>
  void read(const Other& /*other*/) {
    narrow();
    load(Loaded::kOther);
  }

  std::vector<std::string>& links_of(bool differs) {
    const bool in = loaded_ == Loaded::kIn || loaded_ == Loaded::kInIndex;
    if (differs) return in ? out_.not_in : out_.not_out;
    return in ? out_.in : out_.out;
  }
  std::vector<AddressSpan>& spans_of(bool differs) {
    const bool source = loaded_ == Loaded::kSource;
    if (differs) return source ? out_.not_source : out_.not_destination;
    return source ? out_.source : out_.destination;
  }
  void add(const nf::Bytes& data, bool differs) {
    if (loaded_ == Loaded::kIn || loaded_ == Loaded::kOut) {
      links_of(differs).push_back(link_in(data));
    } else if (is_link()) {
      links_of(differs).push_back(link_of_index(data));
    } else if (is_address()) {
      nf::Bytes whole = data;
      whole.resize(out_.family == Family::kIpv4 ? 4 : 16);
      const auto range = Cidr::from_bytes(whole.data(), whole.size(), prefix_);
      spans_of(differs).push_back(AddressSpan::of(range));
      out_.has_other_sources |= differs && loaded_ == Loaded::kSource;
    } else {
      narrow();
    }
  }

  nf::NfSocket& socket_;
  const nf::Rule& rule_;
  ForwardRule out_;
  Loaded loaded_ = Loaded::kNothing;
  unsigned prefix_ = 0;
  std::optional<std::uint32_t> mask_ = {};
};

}  // namespace

ForwardRule read_rule(nf::NfSocket& socket, const nf::Rule& rule) {
  return RuleReader(socket, rule).run();
}

void take_states(ForwardRule& rule, std::uint32_t states, bool is_inverted) {
  if (is_inverted) states = ~states;
  rule.takes_new &= (states & nf::kStateNew) != 0;
  rule.takes_replies &= (states & nf::kStateEstablished) != 0;
}

void take_dnat(ForwardRule& rule, bool is_inverted) {
  (is_inverted ? rule.takes_dnat : rule.takes_direct) = false;
}

void take_mark(ForwardRule& rule, std::uint32_t mark, bool is_inverted) {
  constexpr std::uint32_t kKubeProxy = 0x4000;  // --iptables-masquerade-bit
  if (is_inverted || mark != kKubeProxy) {
    rule.is_narrow = true;
  } else {
    rule.is_of_others = true;
  }
}

void take_protocol(ForwardRule& rule, unsigned protocol, bool is_inverted) {
  if (is_inverted) {
    (protocol == IPPROTO_TCP ? rule.is_of_others : rule.is_part) = true;
  } else {
    (protocol == IPPROTO_TCP ? rule.is_of_tcp : rule.is_of_others) = true;
  }
}

}  // namespace tool::doctor
