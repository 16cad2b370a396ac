#include "plugins/common/xt_text.h"

#include <linux/in.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "netlink/nf/match.h"
#include "netlink/types/error.h"
#include "plugins/common/xt_extension.h"

namespace plugins::xt {

namespace {

using netlink::cat;
using netlink::Family;
using netlink::Ip;
using netlink::nf::Bitwise;
using netlink::nf::Bytes;
using netlink::nf::Cmp;
using netlink::nf::Exprs;
using netlink::nf::Fib;
using netlink::nf::Immediate;
using netlink::nf::Masq;
using netlink::nf::Meta;
using netlink::nf::Nat;
using netlink::nf::Payload;
using netlink::nf::Side;
using netlink::nf::Verdict;
using netlink::nf::Xt;

std::uint32_t host_word(const Bytes& bytes) {
  std::uint32_t word = 0;
  if (bytes.size() == sizeof word) std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

std::string port_text(const Bytes& bytes) {
  return bytes.size() < 2 ? "?" : std::to_string(bytes[0] << 8 | bytes[1]);
}

std::string protocol_text(unsigned number) {
  switch (number) {
    case IPPROTO_TCP:
      return "tcp";
    case IPPROTO_UDP:
      return "udp";
    case IPPROTO_SCTP:
      return "sctp";
    default:
      return std::to_string(number);
  }
}

std::string verdict_text(const Verdict& verdict) {
  switch (verdict.code) {
    case NF_ACCEPT:
      return "-j ACCEPT";
    case NF_DROP:
      return "-j DROP";
    case NFT_RETURN:
      return "-j RETURN";
    case NFT_JUMP:
      return cat("-j ", verdict.chain);
    case NFT_GOTO:
      return cat("-g ", verdict.chain);
    default:
      return "?verdict";
  }
}

/// Goes through a rule once; the parts come out in iptables-save's order.
class Reader {
 public:
  Reader(const Exprs& exprs, Family family) : exprs_(exprs), family_(family) {}

  std::string run() {
    while (at_ < exprs_.size()) std::visit(*this, exprs_[at_++]);
    std::string out;
    for (const std::string* part :
         {&source_, &destination_, &in_, &out_, &protocol_, &matches_, &target_}) {
      if (!part->empty()) out += cat(out.empty() ? "" : " ", *part);
    }
    return out;
  }

  void operator()(const Meta& load) {
    if (load.set) return unknown("meta");
    const auto* const mask = next<Bitwise>();
    if (load.key == NFT_META_MARK) return mark(mask);
    const auto* const cmp = next<Cmp>();
    if (cmp == nullptr || mask != nullptr) return unknown("meta");
    const char* const no = cmp->op == NFT_CMP_NEQ ? "! " : "";
    if (load.key == NFT_META_IIFNAME) {
      in_ = cat(no, "-i ", link_text(cmp->data));
    } else if (load.key == NFT_META_OIFNAME) {
      out_ = cat(no, "-o ", link_text(cmp->data));
    } else if (load.key == NFT_META_L4PROTO && cmp->op == NFT_CMP_EQ && cmp->data.size() == 1) {
      protocol(cmp->data[0]);
    } else {
      unknown("meta");
    }
  }

  void operator()(const Payload& load) {
    const std::size_t start = at_ - 1;
    const auto* const mask = next<Bitwise>();
    const auto* const cmp = next<Cmp>();
    if (cmp == nullptr || cmp->op != NFT_CMP_EQ) return unknown("payload");
    if (load.base == NFT_PAYLOAD_TRANSPORT_HEADER) {
      if (load.offset != 2 || load.len != 2 || mask != nullptr) return unknown("payload");
      return match(cat("-m ", protocol_name_, " --dport ", port_text(cmp->data)));
    }
    // How iptables-nft wrote -p before 1.8.3: the header's field.
    const unsigned field = family_ == Family::kIpv4 ? 9 : 6;
    if (load.offset == field && load.len == 1 && mask == nullptr && cmp->data.size() == 1) {
      return protocol(cmp->data[0]);
    }
    const Exprs one(exprs_.begin() + static_cast<std::ptrdiff_t>(start),
                    exprs_.begin() + static_cast<std::ptrdiff_t>(at_));
    const auto source = netlink::nf::address_of(one, Side::kSource, family_);
    const auto destination = netlink::nf::address_of(one, Side::kDestination, family_);
    if (source) source_ = cat("-s ", source->str());
    if (destination) destination_ = cat("-d ", destination->str());
    if (!source && !destination) unknown("payload");
  }

  void operator()(const Fib& load) {
    const auto* const cmp = next<Cmp>();
    const bool local = cmp != nullptr && cmp->op == NFT_CMP_EQ && host_word(cmp->data) == RTN_LOCAL;
    if (!local || load.result != NFT_FIB_RESULT_ADDRTYPE || load.flags != NFTA_FIB_F_DADDR) {
      return unknown("fib");
    }
    match("-m addrtype --dst-type LOCAL");
  }

  void operator()(const Immediate& value) { registers_[value.dreg] = value.data; }
  void operator()(const Nat& nat) {
    const Bytes address = registers_[nat.address_reg];
    const bool plain = nat.type == NFT_NAT_DNAT && address.size() == Ip::any(family_).size();
    if (!plain) return unknown("nat");
    const Ip ip = Ip::from_bytes(address.data(), address.size());
    const std::string host = ip.is_v4() || nat.port_reg == 0 ? ip.str() : cat("[", ip.str(), "]");
    const std::string port = nat.port_reg == 0 ? "" : cat(":", port_text(registers_[nat.port_reg]));
    target_ = cat("-j DNAT --to-destination ", host, port);
  }
  void operator()(const Masq&) { target_ = "-j MASQUERADE"; }
  void operator()(const Verdict& verdict) { target_ = verdict_text(verdict); }
  void operator()(const netlink::nf::Counter&) {}

  void operator()(const Xt& xt) {
    const auto text = extension_text(xt, family_);
    if (!text) return unknown(xt.name);
    if (xt.target) {
      target_ = *text;
    } else {
      match(*text);
    }
  }

  template <class Other>
  void operator()(const Other&) {
    unknown("expr");
  }

 private:
  // The next expression, if it is one of this kind.
  template <class Expr>
  const Expr* next() {
    const auto* const expr = at_ < exprs_.size() ? std::get_if<Expr>(&exprs_[at_]) : nullptr;
    if (expr != nullptr) ++at_;
    return expr;
  }

  // "-m mark", or natively "-j MARK": mark = (mark & mask) ^ flip.
  void mark(const Bitwise* bits) {
    if (bits == nullptr) return unknown("mark");
    if (const auto* const cmp = next<Cmp>(); cmp != nullptr && cmp->op == NFT_CMP_EQ) {
      return match(cat("-m mark --mark ", mark_text(host_word(cmp->data), host_word(bits->mask))));
    }
    const auto* const store = next<Meta>();
    if (store == nullptr || !store->set || store->key != NFT_META_MARK) return unknown("mark");
    target_ = cat("-j MARK --set-xmark ", mark_text(host_word(bits->flip), ~host_word(bits->mask)));
  }

  void protocol(unsigned number) {
    protocol_name_ = protocol_text(number);
    protocol_ = cat("-p ", protocol_name_);
  }

  // iptables-nft compares the name with its NUL, or without where "+" stands for the rest.
  static std::string link_text(const Bytes& name) {
    const auto end = std::find(name.begin(), name.end(), std::uint8_t{0});
    return {std::string(name.begin(), end) + (end == name.end() ? "+" : "")};
  }

  void match(const std::string& text) { matches_ += cat(matches_.empty() ? "" : " ", text); }
  void unknown(const std::string& name) { match(cat("?", name)); }

  const Exprs& exprs_;
  Family family_;
  std::size_t at_ = 0;
  std::map<std::uint32_t, Bytes> registers_;
  std::string source_, destination_, in_, out_, protocol_, protocol_name_, matches_, target_;
};

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out += '"';
}

std::string mark_text(std::uint32_t value, std::uint32_t mask) {
  char text[2 * sizeof "0xffffffff"];
  std::snprintf(text, sizeof text, "0x%x/0x%x", value, mask);
  return text;
}

std::string text_of(const netlink::nf::Rule& rule) {
  const bool v4 = rule.chain.family == netlink::nf::TableFamily::kIp;
  return Reader(rule.exprs, v4 ? Family::kIpv4 : Family::kIpv6).run();
}

}  // namespace plugins::xt
