#include "plugins/dhcp/protocol/protocol.h"

#include <bit>

#include "libcni/common/error.h"

namespace dhcp {

namespace {

using gob::Struct;
using gob::Value;
using netlink::Cidr;
using netlink::Ip;

// The numbers of our types: any will do.
enum TypeId : std::int64_t {
  kHeaderType = 64,
  kArgumentsType,
  kResultType,
  kIpListType,
  kIpType,
  kNetworkType,
  kRouteListType,
  kRouteType,
  kDnsType,
  kTextListType,
  kTextType,
  kNothingType
};

std::string_view octets_of(const Ip& ip) {
  return {reinterpret_cast<const char*>(ip.data()), ip.size()};
}

std::string network(const Cidr& cidr) {
  const Ip mask = Ip::any(cidr.ip.family()).broadcast(0).masked(cidr.prefix);
  return Struct().text(0, octets_of(cidr.ip)).text(1, octets_of(mask)).str();
}

std::string texts(const std::vector<std::string>& list) {
  std::string out = gob::unsigned_integer(list.size());
  for (const std::string& one : list) out += gob::counted(one);
  return out;
}

std::string dns_of(const cni::Dns& dns) {
  Struct out;
  if (!dns.nameservers.empty()) out.encoded(0, texts(dns.nameservers));
  out.text(1, dns.domain);
  if (!dns.search.empty()) out.encoded(2, texts(dns.search));
  if (!dns.options.empty()) out.encoded(3, texts(dns.options));
  return out.str();
}

std::string result_body(const cni::Result& result) {
  std::vector<std::string> ips;
  for (const cni::Address& address : result.ips) {
    Struct ip;
    ip.encoded(0, network(address.cidr));
    if (address.gateway) ip.text(1, octets_of(*address.gateway));
    ips.push_back(ip.str());
  }
  std::vector<std::string> routes;
  for (const cni::Route& route : result.routes) {
    Struct one;
    one.encoded(0, network(route.dst));
    if (route.gateway) one.text(1, octets_of(*route.gateway));
    if (route.priority != 0) one.integer(2, route.priority);
    if (route.scope) one.integer(3, *route.scope);
    routes.push_back(one.str());
  }
  return Struct().list(0, ips).list(1, routes).encoded(2, dns_of(result.dns)).str();
}

std::string result_types() {
  using gob::kBytes;
  using gob::kInt;
  using gob::kString;
  return gob::define_struct(kResultType, "Result",
                            {{"IPs", kIpListType}, {"Routes", kRouteListType}, {"DNS", kDnsType}}) +
         gob::define_list(kIpListType, kIpType) +
         gob::define_struct(kIpType, "IPConfig", {{"Address", kNetworkType}, {"Gateway", kBytes}}) +
         gob::define_struct(kNetworkType, "IPNet", {{"IP", kBytes}, {"Mask", kBytes}}) +
         gob::define_list(kRouteListType, kRouteType) +
         gob::define_struct(
             kRouteType, "Route",
             {{"Dst", kNetworkType}, {"GW", kBytes}, {"Priority", kInt}, {"Scope", kInt}}) +
         gob::define_struct(kDnsType, "DNS",
                            {{"Nameservers", kTextListType},
                             {"Domain", kString},
                             {"Search", kTextListType},
                             {"Options", kTextListType}}) +
         gob::define_list(kTextListType, kString);
}

[[noreturn]] void fail(const char* what) {
  throw cni::Error(cni::Code::kDecodingFailure, cni::cat("result of the DHCP daemon: ", what));
}

// A Go net.IP has 4 or 16 bytes, whatever the family.
std::optional<Ip> ip_from(const Value& value) {
  constexpr std::string_view kMapped("\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
  std::string_view bytes = value.text;
  if (bytes.empty()) return std::nullopt;
  if (bytes.size() == 16 && bytes.starts_with(kMapped)) bytes.remove_prefix(kMapped.size());
  if (bytes.size() != 4 && bytes.size() != 16) fail("an IP address of another length");
  return Ip::from_bytes(bytes.data(), bytes.size());
}

Cidr network_from(const Value& value) {
  const auto ip = ip_from(value.field("IP"));
  std::string_view mask = value.field("Mask").text;
  if (!ip) fail("a network without address");
  if (mask.size() > ip->size()) mask.remove_prefix(mask.size() - ip->size());
  unsigned prefix = 0;
  for (const char byte : mask) {
    const auto ones = std::countl_one(static_cast<std::uint8_t>(byte));
    prefix += static_cast<unsigned>(ones);
    if (ones < 8) break;
  }
  return {*ip, prefix};
}

std::vector<std::string> texts_from(const Value& value) {
  std::vector<std::string> out;
  for (const Value& one : value.list) out.push_back(one.text);
  return out;
}

cni::Route route_from(const Value& value) {
  cni::Route out{.dst = network_from(value.field("Dst")), .gateway = ip_from(value.field("GW"))};
  const auto number = [&value](std::string_view field) {
    return static_cast<unsigned>(value.field(field).number);
  };
  out.mtu = number("MTU");
  out.advmss = number("AdvMSS");
  out.priority = number("Priority");
  if (value.has("Table")) out.table = number("Table");
  if (value.has("Scope")) out.scope = number("Scope");
  return out;
}

}  // namespace

std::string encode(const Call& call) {
  using gob::kString;
  return gob::define_struct(kHeaderType, "Request",
                            {{"ServiceMethod", kString}, {"Seq", gob::kUint}}) +
         gob::message(kHeaderType, Struct().text(0, call.method).number(1, call.sequence).str()) +
         gob::define_struct(kArgumentsType, "CmdArgs",
                            {{"ContainerID", kString},
                             {"Netns", kString},
                             {"IfName", kString},
                             {"Args", kString},
                             {"Path", kString},
                             {"NetnsOverride", kString},
                             {"StdinData", gob::kBytes}}) +
         gob::message(kArgumentsType, Struct()
                                          .text(0, call.container_id)
                                          .text(1, call.netns)
                                          .text(2, call.ifname)
                                          .text(3, call.args)
                                          .text(4, call.path)
                                          .text(6, call.input)
                                          .str());
}

Call call_from(const Value& header, const Value& body) {
  return {.method = header.field("ServiceMethod").text,
          .sequence = header.field("Seq").number,
          .container_id = body.field("ContainerID").text,
          .netns = body.field("Netns").text,
          .ifname = body.field("IfName").text,
          .args = body.field("Args").text,
          .path = body.field("Path").text,
          .input = body.field("StdinData").text};
}

std::string AnswerEncoder::value(std::int64_t type, const std::string& definitions,
                                 std::string_view body) {
  return (defined_.insert(type).second ? definitions : "") + gob::message(type, body);
}

std::string AnswerEncoder::header(const Call& call, std::string_view error) {
  using gob::kString;
  return value(
      kHeaderType,
      gob::define_struct(kHeaderType, "Response",
                         {{"ServiceMethod", kString}, {"Seq", gob::kUint}, {"Error", kString}}),
      Struct().text(0, call.method).number(1, call.sequence).text(2, error).str());
}

std::string AnswerEncoder::result(const Call& call, const cni::Result& result) {
  return header(call, "") + value(kResultType, result_types(), result_body(result));
}

std::string AnswerEncoder::text(const Call& call, std::string_view text) {
  return header(call, "") + value(kTextType,
                                  gob::define_struct(kTextType, "Text", {{"Text", gob::kString}}),
                                  Struct().text(0, text).str());
}

std::string AnswerEncoder::nothing(const Call& call) { return error(call, ""); }

std::string AnswerEncoder::error(const Call& call, std::string_view error) {
  return header(call, error) +
         value(kNothingType, gob::define_struct(kNothingType, "", {}), Struct().str());
}

cni::Result result_from(const Value& body) {
  cni::Result out;
  for (const Value& ip : body.field("IPs").list) {
    out.ips.push_back(
        {.cidr = network_from(ip.field("Address")), .gateway = ip_from(ip.field("Gateway"))});
  }
  for (const Value& route : body.field("Routes").list) out.routes.push_back(route_from(route));
  const Value& dns = body.field("DNS");
  out.dns = {.nameservers = texts_from(dns.field("Nameservers")),
             .domain = dns.field("Domain").text,
             .search = texts_from(dns.field("Search")),
             .options = texts_from(dns.field("Options"))};
  return out;
}

}  // namespace dhcp
