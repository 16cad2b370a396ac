#include "libcni/config/result.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "libcni/config/conf.h"

namespace cni {

namespace {

using Json = nlohmann::ordered_json;

// Reserves room for its members, because growing would copy keys.
Json new_object() {
  constexpr std::size_t kMembers = 6;
  Json out = Json::object();
  out.get_ref<Json::object_t&>().reserve(kMembers);
  return out;
}

template <class T>
void put(Json& object, const char* key, const T& value) {
  if (!value.empty()) object[key] = value;
}

// A macro-free way to say "omit if zero".
void put_number(Json& object, const char* key, unsigned value) {
  if (value != 0) object[key] = value;
}

// Prints keys in alphabetical order for 1.x, which does so in every object.
Json dns_json(const Dns& dns, bool alphabetical) {
  Json out = new_object();
  if (alphabetical) {
    put(out, "domain", dns.domain);
    put(out, "nameservers", dns.nameservers);
    put(out, "options", dns.options);
    put(out, "search", dns.search);
  } else {
    put(out, "nameservers", dns.nameservers);
    put(out, "domain", dns.domain);
    put(out, "search", dns.search);
    put(out, "options", dns.options);
  }
  return out;
}

Json route_json(const Route& route, bool alphabetical) {
  Json out = new_object();
  if (alphabetical) put_number(out, "advmss", route.advmss);
  out["dst"] = route.dst.str();
  if (route.gateway) out["gw"] = route.gateway->str();
  put_number(out, "mtu", route.mtu);
  if (!alphabetical) put_number(out, "advmss", route.advmss);
  put_number(out, "priority", route.priority);
  if (alphabetical && route.scope) out["scope"] = *route.scope;
  if (route.table) out["table"] = *route.table;
  if (!alphabetical && route.scope) out["scope"] = *route.scope;
  return out;
}

Json interface_json(const Interface& interface, bool v1) {
  Json out = new_object();
  if (v1) {
    put(out, "mac", interface.mac);
    put_number(out, "mtu", interface.mtu);
    out["name"] = interface.name;
    put(out, "pciID", interface.pci_id);
    put(out, "sandbox", interface.sandbox);
    put(out, "socketPath", interface.socket_path);
  } else {
    out["name"] = interface.name;
    put(out, "mac", interface.mac);
    put(out, "sandbox", interface.sandbox);
  }
  return out;
}

// The index as it was read: one out of range is passed on.
std::int64_t index_of(const Address& address) {
  return static_cast<std::int64_t>(*address.interface);
}

Json address_json(const Address& address, bool v1) {
  Json out = new_object();
  if (v1) {
    out["address"] = address.cidr.str();
    if (address.gateway) out["gateway"] = address.gateway->str();
    if (address.interface) out["interface"] = index_of(address);
  } else {
    out["version"] = address.cidr.ip.is_v4() ? "4" : "6";
    if (address.interface) out["interface"] = index_of(address);
    out["address"] = address.cidr.str();
    if (address.gateway) out["gateway"] = address.gateway->str();
  }
  return out;
}

template <class Items, class Fn>
void put_list(Json& out, const char* key, const Items& items, Fn&& one) {
  if (items.empty()) return;
  Json list = Json::array();
  for (const auto& item : items) list.push_back(one(item));
  out[key] = std::move(list);
}

// 0.3.0 to 1.1.0.
Json modern_json(const Result& result, Version as) {
  const bool v1 = as >= Version::k1_0_0;
  Json out = new_object();
  out["cniVersion"] = str(as);
  if (v1 && !result.dns.empty()) out["dns"] = dns_json(result.dns, v1);
  put_list(out, "interfaces", result.interfaces,
           [v1](const Interface& i) { return interface_json(i, v1); });
  put_list(out, "ips", result.ips, [v1](const Address& a) { return address_json(a, v1); });
  put_list(out, "routes", result.routes, [v1](const Route& r) { return route_json(r, v1); });
  if (!v1) out["dns"] = dns_json(result.dns, v1);
  return out;
}

// 0.1.0 and 0.2.0: one address of each family, no interfaces.
Json ancient_json(const Result& result, Version as) {
  Json out = new_object();
  out["cniVersion"] = str(as);
  for (const bool v4 : {true, false}) {
    for (const Address& address : result.ips) {
      if (address.cidr.ip.is_v4() != v4) continue;
      Json ip = new_object();
      ip["ip"] = address.cidr.str();
      if (address.gateway) ip["gateway"] = address.gateway->str();
      for (const Route& route : result.routes) {
        if (route.dst.ip.is_v4() != v4) continue;
        Json one = new_object();
        one["dst"] = route.dst.str();
        if (route.gateway) one["gw"] = route.gateway->str();
        ip["routes"].push_back(std::move(one));
      }
      out[v4 ? "ip4" : "ip6"] = std::move(ip);
      break;
    }
  }
  if (!out.contains("ip4") && !out.contains("ip6")) {
    throw Error(Code::kIncompatibleVersion, "cannot convert: no valid IP addresses",
                cat("the result has no address, which cniVersion ", str(as),
                    " cannot express; use 0.3.0 or newer"));
  }
  out["dns"] = dns_json(result.dns, false);
  return out;
}

enum class Shape { kAncient, kModern, kV1 };

Shape shape_of(Version version) {
  if (version <= Version::k0_2_0) return Shape::kAncient;
  return version <= Version::k0_4_0 ? Shape::kModern : Shape::kV1;
}

std::string family_text(Shape shape) {
  if (shape == Shape::kAncient) return "[0.1.0 0.2.0]";
  return shape == Shape::kModern ? "[0.3.0 0.3.1 0.4.0]" : "[1.0.0 1.1.0]";
}

void read_ancient(const Reader& place, const char* key, Result& result) {
  const Reader ip = place[key];
  if (!ip.present()) return;
  Address address{.cidr = ip["ip"].as_cidr()};
  ip.into("gateway", address.gateway);
  result.ips.push_back(address);
  for (auto& route : routes_from(ip["routes"])) result.routes.push_back(route);
}

Interface interface_from(const Reader& place) {
  Interface out;
  place.into("name", out.name);
  place.into("mac", out.mac);
  place.into("mtu", out.mtu, 0, std::numeric_limits<std::uint32_t>::max());
  place.into("sandbox", out.sandbox);
  place.into("socketPath", out.socket_path);
  place.into("pciID", out.pci_id);
  return out;
}

Address address_from(const Reader& place) {
  Address out{.cidr = place["address"].as_cidr()};
  place.into("gateway", out.gateway);
  if (const Reader index = place["interface"]; index.present()) {
    // Any, as in the reference: whoever uses it compares it with the number of interfaces, to which
    // a negative one is too large.
    out.interface = static_cast<std::size_t>(index.as_int(
        std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()));
  }
  return out;
}

}  // namespace

std::string go_mask(const Cidr& cidr) {
  std::string out;
  const unsigned bits = cidr.ip.is_v4() ? 32 : 128;
  for (unsigned at = 0; at < bits; at += 4) {
    out += "08cef"[std::min(4U, std::max(at, cidr.prefix) - at)];
  }
  return out;
}

std::string go_text(const Route& route) {
  const auto number = [](const std::optional<unsigned>& value) {
    return value ? std::to_string(*value) : std::string("<nil>");
  };
  return cat("{Dst:{IP:", route.dst.ip.str(), " Mask:", go_mask(route.dst),
             "} GW:", route.gateway ? route.gateway->str() : "<nil>", " MTU:", route.mtu,
             " AdvMSS:", route.advmss, " Priority:", route.priority, " Table:", number(route.table),
             " Scope:", number(route.scope), "}");
}

nlohmann::ordered_json to_json(const Result& result, Version as) {
  return shape_of(as) == Shape::kAncient ? ancient_json(result, as) : modern_json(result, as);
}

Result result_from(const nlohmann::json& doc, Version assumed) {
  const Reader root(doc, Code::kDecodingFailure);
  std::string own;
  root.into("cniVersion", own);
  if (own.empty()) own = str(assumed);
  const auto version = version_from(own);
  const Shape shape = shape_of(assumed);
  if (!version || shape_of(*version) != shape) {
    throw Error(Code::kIncompatibleVersion, cat("result type supports ", family_text(shape),
                                                " but unmarshalled CNIVersion is \"", own, "\""));
  }
  Result result;
  result.dns = dns_from(root["dns"]);
  if (shape == Shape::kAncient) {
    read_ancient(root, "ip4", result);
    read_ancient(root, "ip6", result);
    return result;
  }
  for (const Reader& one : root["interfaces"].elements()) {
    result.interfaces.push_back(interface_from(one));
  }
  for (const Reader& one : root["ips"].elements()) {
    result.ips.push_back(address_from(one));
  }
  result.routes = routes_from(root["routes"], GatewayFamily::kAny);
  return result;
}

Result result_from(const nlohmann::json& doc) {
  if (doc.is_null()) return {};
  std::string own;
  Reader(doc, Code::kDecodingFailure).into("cniVersion", own);
  const auto version = version_from(own);
  if (!version) {
    throw Error(Code::kIncompatibleVersion, cat("unsupported CNI result version \"", own, "\""));
  }
  return result_from(doc, *version);
}

}  // namespace cni
