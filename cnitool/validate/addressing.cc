#include "cnitool/validate/addressing.h"

#include <nlohmann/json.hpp>

#include "libcni/config/address_range.h"

namespace tool {

namespace {

using netlink::Cidr;
using netlink::Ip;
using nlohmann::json;

// Malformed subnets are passed over: the parser has reported them.
void add_subnet(const json& place, const std::string& path, const char* key, Addressing& out) {
  const auto cidr = Cidr::parse(text_at(place, key));
  if (!cidr) return;
  out.subnets.push_back({.path = cat(path, ".", key),
                         .cidr = *cidr,
                         .gateway_path = cat(path, ".gateway"),
                         .gateway = Ip::parse(text_at(place, "gateway"))});
}

template <class Fn>
void each(const json& object, const char* key, Fn&& fn) {
  const json* const list = member(object, key);
  if (list == nullptr || !list->is_array()) return;
  for (std::size_t i = 0; i < list->size(); ++i) fn((*list)[i], cat("[", i, "]"));
}

void add_ranges(const json& ipam, Addressing& out) {
  add_subnet(ipam, "ipam", "subnet", out);
  each(ipam, "ranges", [&out](const json& set, const std::string& at) {
    if (!set.is_array()) return;
    for (std::size_t i = 0; i < set.size(); ++i) {
      add_subnet(set[i], cat("ipam.ranges", at, "[", i, "]"), "subnet", out);
    }
  });
}

std::int64_t integer_at(const json& place, const char* key) {
  const json* const found = member(place, key);
  return found != nullptr && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

void add_way_out(const json& route, const std::string& path, Addressing& out) {
  constexpr std::int64_t kMainTable = 254;
  const auto dst = Cidr::parse(text_at(route, "dst"));
  const auto table = integer_at(route, "table");
  if (!dst || !dst->is_default() || (table != 0 && table != kMainTable)) return;
  out.ways_out.push_back({cat(path, ".dst"), dst->ip.family(), integer_at(route, "priority")});
}

}  // namespace

Addressing addressing_of(const PluginText& plugin) {
  Addressing out;
  const json* const ipam = member(plugin.conf(), "ipam");
  if (ipam == nullptr) return out;
  out.is_static = plugin.ipam_facts.has(cni::Fact::kAddresses);
  out.known = out.is_static || plugin.ipam_facts.has(cni::Fact::kRanges);
  if (!out.known) return out;
  if (out.is_static) {
    each(*ipam, "addresses", [&out](const json& one, const std::string& at) {
      add_subnet(one, cat("ipam.addresses", at), "address", out);
      ++out.entries;
    });
  } else {
    add_ranges(*ipam, out);
  }
  each(*ipam, "routes", [&out](const json& one, const std::string& at) {
    const auto gateway = Ip::parse(text_at(one, "gw"));
    if (gateway) {
      out.hops.push_back({cat("ipam.routes", at, ".gw"), *gateway, Cidr::parse(text_at(one, "dst")),
                          integer_at(one, "priority") != 0});
    }
    add_way_out(one, cat("ipam.routes", at), out);
  });
  return out;
}

}  // namespace tool
