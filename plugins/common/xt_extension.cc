#include "plugins/common/xt_extension.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/xt_addrtype.h>
#include <linux/netfilter/xt_conntrack.h>
#include <linux/netfilter/xt_mark.h>
#include <linux/netfilter/xt_multiport.h>
#include <linux/netfilter/xt_tcpudp.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "netlink/types/error.h"
#include "netlink/types/ip.h"
#include "plugins/common/xt_text.h"

namespace plugins::xt {

namespace {

using netlink::cat;
using netlink::Family;
using netlink::Ip;
using netlink::nf::Xt;
using Text = std::optional<std::string>;

// The extension's struct; the kernel pads it to 8 bytes.
template <class T>
std::optional<T> info_as(const Xt& xt) {
  T info;
  if (xt.info.size() < sizeof info) return std::nullopt;
  std::memcpy(&info, xt.info.data(), sizeof info);
  return info;
}

Text comment(const Xt& xt, Family) { return cat("-m comment --comment ", in_quotes(xt.comment)); }

Text addrtype(const Xt& xt, Family) {
  const auto info = info_as<xt_addrtype_info_v1>(xt);
  const bool plain = info && info->source == 0 && info->flags == 0;
  if (xt.revision != 1 || !plain || info->dest != XT_ADDRTYPE_LOCAL) return std::nullopt;
  return "-m addrtype --dst-type LOCAL";
}

Text multiport(const Xt& xt, Family) {
  const auto info = info_as<xt_multiport_v1>(xt);
  if (xt.revision != 1 || !info || info->invert != 0) return std::nullopt;
  if (info->flags != XT_MULTIPORT_DESTINATION || info->count > XT_MULTI_PORTS) return std::nullopt;
  std::string out;
  for (unsigned i = 0; i < info->count; ++i) {
    if (info->pflags[i] != 0) return std::nullopt;  // a range
    out += cat(out.empty() ? "-m multiport --dports " : ",", info->ports[i]);
  }
  return out;
}

Text dport(const Xt& xt, const std::uint16_t (&ports)[2]) {
  if (ports[0] != ports[1]) return std::nullopt;
  return cat("-m ", xt.name, " --dport ", ports[0]);
}

bool is_any(const std::uint16_t (&ports)[2]) { return ports[0] == 0 && ports[1] == 0xffff; }

Text tcp(const Xt& xt, Family) {
  const auto info = info_as<xt_tcp>(xt);
  if (!info || !is_any(info->spts) || info->invflags != 0) return std::nullopt;
  if (info->option != 0 || info->flg_mask != 0) return std::nullopt;
  return dport(xt, info->dpts);
}

Text udp(const Xt& xt, Family) {
  const auto info = info_as<xt_udp>(xt);
  if (!info || !is_any(info->spts) || info->invflags != 0) return std::nullopt;
  return dport(xt, info->dpts);
}

// struct xt_sctp_info: linux/netfilter/xt_sctp.h is no C++.
struct SctpInfo {
  std::uint16_t dpts[2], spts[2];
  std::uint32_t chunkmap[64], chunk_match_type;
  std::uint8_t flag_info[4][3];
  std::int32_t flag_count;
  std::uint32_t flags, invflags;
};

Text sctp(const Xt& xt, Family) {
  constexpr unsigned kDestinationPorts = 2;  // XT_SCTP_DEST_PORTS
  const auto info = info_as<SctpInfo>(xt);
  if (!info || info->flags != kDestinationPorts || info->invflags != 0) return std::nullopt;
  return dport(xt, info->dpts);
}

Text mark(const Xt& xt, Family) {
  const auto info = info_as<xt_mark_mtinfo1>(xt);
  if (xt.revision != 1 || !info || info->invert != 0) return std::nullopt;
  return cat("-m mark --mark ", mark_text(info->mark, info->mask));
}

Text set_mark(const Xt& xt, Family) {
  const auto info = info_as<xt_mark_tginfo2>(xt);
  if (xt.revision != 2 || !info) return std::nullopt;
  return cat("-j MARK --set-xmark ", mark_text(info->mark, info->mask));
}

// In the order of iptables-save. The bits are 1 << (IP_CT_x + 1), and SNAT and DNAT behind them.
std::string states(unsigned bits) {
  struct Name {
    unsigned bit;
    std::string_view text;
  };
  constexpr Name kNames[] = {
      {XT_CONNTRACK_STATE_INVALID, "INVALID"},
      {XT_CONNTRACK_STATE_BIT(IP_CT_NEW), "NEW"},
      {XT_CONNTRACK_STATE_BIT(IP_CT_RELATED), "RELATED"},
      {XT_CONNTRACK_STATE_BIT(IP_CT_ESTABLISHED), "ESTABLISHED"},
      {XT_CONNTRACK_STATE_UNTRACKED, "UNTRACKED"},
      {XT_CONNTRACK_STATE_SNAT, "SNAT"},
      {XT_CONNTRACK_STATE_DNAT, "DNAT"},
  };
  std::string out;
  for (const Name& name : kNames) {
    if ((bits & name.bit) != 0) out += cat(out.empty() ? "" : ",", name.text);
  }
  return out;
}

Text conntrack(const Xt& xt, Family) {
  const auto info = info_as<xt_conntrack_mtinfo2>(xt);  // revision 3 only has more behind it
  const bool known = xt.revision == 2 || xt.revision == 3;
  if (!known || !info || info->match_flags != XT_CONNTRACK_STATE) return std::nullopt;
  const bool inverted = (info->invert_flags & XT_CONNTRACK_STATE) != 0;
  return cat("-m conntrack ", inverted ? "! " : "", "--ctstate ", states(info->state_mask));
}

std::string endpoint(const Ip& ip, std::uint16_t port_be) {
  const std::uint16_t port = ::ntohs(port_be);
  if (port == 0) return ip.str();
  return ip.is_v4() ? cat(ip.str(), ":", port) : cat("[", ip.str(), "]:", port);
}

// Revision 2 has struct nf_nat_range2, which begins as nf_nat_range of revision 1 does, but
// revision 0 of IPv4 has a struct of its own. Only one address and one port are plain.
Text dnat(const Xt& xt, Family family) {
  if (xt.revision == 0) {
    const auto info = info_as<nf_nat_ipv4_multi_range_compat>(xt);
    if (!info || info->rangesize != 1) return std::nullopt;
    const nf_nat_ipv4_range& range = info->range[0];
    if (range.min_ip != range.max_ip || range.min.all != range.max.all) return std::nullopt;
    return cat("-j DNAT --to-destination ",
               endpoint(Ip::from_bytes(&range.min_ip, 4), range.min.all));
  }
  const auto info = info_as<nf_nat_range>(xt);
  constexpr unsigned kPlain = NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED;
  if (!info || (info->flags & ~kPlain) != 0) return std::nullopt;
  const std::size_t size = Ip::any(family).size();
  const Ip address = Ip::from_bytes(&info->min_addr, size);
  const bool one = address == Ip::from_bytes(&info->max_addr, size);
  if (!one || info->min_proto.all != info->max_proto.all) return std::nullopt;
  return cat("-j DNAT --to-destination ", endpoint(address, info->min_proto.all));
}

Text masquerade(const Xt&, Family) { return "-j MASQUERADE"; }

struct Reader {
  std::string_view name;
  bool target;
  Text (*read)(const Xt&, Family);
};
constexpr Reader kReaders[] = {
    {"comment", false, comment},
    {"addrtype", false, addrtype},
    {"multiport", false, multiport},
    {"tcp", false, tcp},
    {"udp", false, udp},
    {"sctp", false, sctp},
    {"conntrack", false, conntrack},
    {"mark", false, mark},
    {"MARK", true, set_mark},
    {"DNAT", true, dnat},
    {"MASQUERADE", true, masquerade},
};

}  // namespace

std::optional<std::string> extension_text(const Xt& xt, Family family) {
  for (const Reader& reader : kReaders) {
    if (reader.name == xt.name && reader.target == xt.target) return reader.read(xt, family);
  }
  return std::nullopt;
}

}  // namespace plugins::xt
