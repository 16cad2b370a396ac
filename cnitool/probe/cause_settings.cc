#include <algorithm>
#include <cstdlib>

#include "cnitool/doctor/finding.h"
#include "cnitool/output.h"
#include "cnitool/probe/causes.h"
#include "libcni/common/error.h"

// Kernel settings (ip-sysctl.rst) that drop packets.
namespace tool::probe {

namespace {

using cni::cat;
using doctor::quoted;

Cause set_otherwise(const Subject* where, const std::string& what, const std::string& key,
                    const std::string& value) {
  return {cat(prefix_of(where), what), where == nullptr ? "" : "of the pod itself, or of a person",
          command_in(where, cat("sysctl -w ", quoted(cat(key, "=", value))))};
}

// The link by which the leg's packets come to the node.
std::string link_in(const Look& look) {
  const Leg& leg = look.leg;
  if (leg.from != nullptr) {
    const auto* const way = look.scene.wire_of(*leg.from).way();
    return way == nullptr ? "" : way->name;
  }
  if (!leg.is_from_beyond) return "";
  const auto& uplink = look.scene.facts().uplink(leg.target.family());
  return uplink ? uplink->link : "";
}

std::optional<Cause> filtered(const Look& look, const Subject* where, const std::string& in) {
  const Leg& leg = look.leg;
  if (in.empty() || !leg.source.is_v4()) return std::nullopt;
  const int filter = look.scene.greater(where, in, "rp_filter");
  if (filter == 0) return std::nullopt;
  netlink::RouteSocket& socket = look.scene.at(where);
  const auto back = socket.path_to(leg.source);
  const auto link = back ? socket.find(back->link) : std::nullopt;
  const bool is_other = back && !back->local && link && link->name != in;
  if (back && (!is_other || filter != 1)) return std::nullopt;
  const std::string key = cat("net/ipv4/conf/", in, "/rp_filter");
  return set_otherwise(
      where,
      cat("net/ipv4/conf/", printable(in), "/rp_filter is ", filter, ", and packets to ",
          leg.source.str(), ", which these come from, ",
          link ? cat("leave by '", printable(link->name), "'") : std::string("have no way")),
      key, "2");
}

}  // namespace

std::optional<Cause> not_forwarded(const Look& look) {
  const Leg& leg = look.leg;
  const std::string in = link_in(look);
  if (in.empty() || look.scene.facts().has(leg.target)) return std::nullopt;
  const std::string link = cat("net/ipv4/conf/", in, "/forwarding");
  const std::vector<std::string> keys =
      leg.target.is_v4() ? std::vector{std::string("net/ipv4/ip_forward"), link}
                         : std::vector{std::string("net/ipv6/conf/all/forwarding")};
  for (const std::string& key : keys) {
    if (look.scene.sysctl(nullptr, key).value_or("1") != "0") continue;
    return set_otherwise(
        nullptr, cat("the node does not forward packets: ", printable(key), " is 0"), key, "1");
  }
  return std::nullopt;
}

std::optional<Cause> not_answered(const Look& look) {
  const Leg& leg = look.leg;
  const Packet& packet = look.one.question.packet;
  if (!leg.is_answer || packet.kind != Kind::kEcho || leg.is_from_beyond) return std::nullopt;
  const std::string key =
      packet.target.is_v4() ? "net/ipv4/icmp_echo_ignore_all" : "net/ipv6/icmp/echo_ignore_all";
  if (look.scene.sysctl(leg.from, key).value_or("0") == "0") return std::nullopt;
  return set_otherwise(leg.from, cat("echoes are not answered: ", key, " is 1"), key, "0");
}

std::optional<Cause> filtered_by_source(const Look& look) {
  return filtered(look, nullptr, link_in(look));
}

std::optional<Cause> filtered_by_source_there(const Look& look) {
  if (look.leg.to == nullptr) return std::nullopt;
  return filtered(look, look.leg.to, look.leg.to->key.ifname);
}

std::optional<Cause> no_ipv6(const Look& look) {
  const Leg& leg = look.leg;
  if (leg.target.is_v4()) return std::nullopt;
  for (const Subject* const pod : {leg.from, leg.to}) {
    if (pod == nullptr) continue;
    const auto* const way = look.scene.wire_of(*pod).way();
    for (const Subject* const where : {static_cast<const Subject*>(nullptr), pod}) {
      if (where == nullptr && way == nullptr) continue;
      const std::string link = where == nullptr ? way->name : pod->key.ifname;
      const std::string key = cat("net/ipv6/conf/", link, "/disable_ipv6");
      if (look.scene.sysctl(where, key).value_or("0") == "0") continue;
      Cause out = set_otherwise(
          where, cat("IPv6 is disabled at '", printable(link), "': ", printable(key), " is 1"), key,
          "0");
      out.remedy = where == nullptr ? cat(out.remedy, " && cnitool repair") : restart_of(*pod);
      return out;
    }
  }
  return std::nullopt;
}

std::optional<Cause> no_loopback(const Look& look) {
  const Leg& leg = look.leg;
  if (!look.one.question.packet.target.is_loopback() || leg.to == nullptr) return std::nullopt;
  const auto* const way = look.scene.wire_of(*leg.to).way();
  if (way == nullptr || look.scene.greater(nullptr, way->name, "route_localnet") != 0) {
    return std::nullopt;
  }
  const std::string key = cat("net/ipv4/conf/", way->name, "/route_localnet");
  return set_otherwise(
      nullptr, cat(printable(key), " is 0, and packets to 127.0.0.1 do not reach pods"), key, "1");
}

std::optional<Cause> conntrack_is_full(const Look& look) {
  const std::string count = "net/netfilter/nf_conntrack_count";
  const std::string most = "net/netfilter/nf_conntrack_max";
  for (const Subject* const where : {static_cast<const Subject*>(nullptr), look.leg.to}) {
    const auto used = look.scene.sysctl(where, count), limit = look.scene.sysctl(where, most);
    if (!used || !limit) continue;
    const long now = std::atol(used->c_str()), max = std::atol(limit->c_str());
    if (max == 0 || now < max) continue;
    return set_otherwise(
        where, cat("connections are not tracked any more: ", now, " are, and ", most, " is ", max),
        most, cat(max * 2));
  }
  return std::nullopt;
}

}  // namespace tool::probe
