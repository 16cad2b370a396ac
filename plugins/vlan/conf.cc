#include "plugins/vlan/conf.h"

#include <algorithm>
#include <charconv>

#include "plugins/common/link/ipam_keys.h"
#include "plugins/common/link/link_keys.h"
#include "plugins/common/link/master.h"
#include "plugins/vlan/facts.h"

namespace vlan {

namespace {

using cni::cat;
using cni::Reader;
using Priorities = netlink::Vlan::Priorities;

constexpr int kMaxId = 4094;  // IEEE 802.1Q: 4095 is reserved
constexpr std::uint32_t kAny = UINT32_MAX;
constexpr std::uint32_t kTag = 7;  // the tag's priority has three bits

// "FROM:TO", as ip-link(8) writes it.
struct Mapping {
  std::uint32_t most_from, most_to;
  const char* expected;
};
constexpr Mapping kEgress{kAny, kTag, "\"FROM:TO\", FROM from 0 to 4294967295 and TO from 0 to 7"};
constexpr Mapping kIngress{kTag, kAny, "\"FROM:TO\", FROM from 0 to 7 and TO from 0 to 4294967295"};

std::optional<std::uint32_t> number(std::string_view text, std::uint32_t most) {
  std::uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || at != end || value > most) return std::nullopt;
  return value;
}

std::optional<Priorities::value_type> mapping_of(std::string_view text, const Mapping& form) {
  const auto colon = text.find(':');
  if (colon == text.npos) return std::nullopt;
  const auto from = number(text.substr(0, colon), form.most_from);
  const auto to = number(text.substr(colon + 1), form.most_to);
  if (!from || !to) return std::nullopt;
  return std::pair(*from, *to);
}
bool is_egress(const std::string& text) { return mapping_of(text, kEgress).has_value(); }
bool is_ingress(const std::string& text) { return mapping_of(text, kIngress).has_value(); }

Priorities priorities_from(const Reader& place, const Mapping& form) {
  Priorities out;
  for (const Reader& item : place.elements()) {
    const auto mapping = mapping_of(item.as_string(), form);
    if (!mapping) item.fail(cat("expected ", form.expected));
    const auto from = mapping->first;
    if (std::ranges::any_of(out, [from](const auto& one) { return one.first == from; })) {
      item.fail(cat("priority ", from, " is mapped twice"));
    }
    out.push_back(*mapping);
  }
  return out;
}

void read_egress(const Reader& place, Conf& conf) { conf.egress = priorities_from(place, kEgress); }
void read_ingress(const Reader& place, Conf& conf) {
  conf.ingress = priorities_from(place, kIngress);
}

void read_master(const Reader& place, Conf& conf) {
  if (place.present()) conf.master = place.as_string();
  if (!conf.master.empty()) return;
  place.refuse(
      "\"master\" field is required. It specifies the host interface name to create the VLAN for");
}

void read_id(const Reader& place, Conf& conf) {
  const auto id = place.as_int(INT32_MIN, INT32_MAX);
  if (id < 0 || id > kMaxId) {
    place.refuse(cat("invalid VLAN ID ", id, " (must be between 0 and 4095 inclusive)"),
                 cat("expected 0 to ", kMaxId));
  }
  conf.vlan_id = static_cast<std::uint16_t>(id);
}

constexpr std::string_view kProtocols[] = {"802.1Q", "802.1ad"};

constexpr auto kKeys = cni::keys(
    cni::custom<read_master>(
        {.name = "master",
         .description = "link whose VLAN the container interface is; it must be up",
         .required = true}),
    plugins::link_in_container_key<Conf>(),
    cni::custom<read_id>({.name = "vlanId",
                          .description = "VLAN ID. 0 is a tag with a priority and without a VLAN",
                          .default_text = "0",
                          .type = cni::Type::kInteger,
                          .maximum = kMaxId}),
    cni::key<&Conf::protocol>({.name = "protocol",
                               .description = "the tag's protocol: `802.1Q` (0x8100), or `802.1ad` "
                                              "(0x88a8) for the outer tag of two (QinQ)",
                               .default_text = "`802.1Q`",
                               .enumeration = kProtocols}),
    cni::custom<read_egress>(
        {.name = "egressQosMap",
         .description = "`FROM:TO` maps the priority of a sent packet (`SO_PRIORITY`) to that of "
                        "the tag, 0 to 7. Others are sent with priority 0",
         .lists = 1,
         .pattern = "^[0-9]+:0*[0-7]$",
         .fits = is_egress,
         .expected = kEgress.expected}),
    cni::custom<read_ingress>(
        {.name = "ingressQosMap",
         .description = "`FROM:TO` maps the priority of a received tag, 0 to 7, to that of the "
                        "packet. Others get priority 0",
         .lists = 1,
         .pattern = "^0*[0-7]:[0-9]+$",
         .fits = is_ingress,
         .expected = kIngress.expected}),
    plugins::master_mtu_key<Conf>(), plugins::ipam_key<Conf>(),
    plugins::dns_key<Conf>(plugins::kDnsOfConfig), plugins::dns_from_ipam_key<Conf>(),
    plugins::ignore_default_route_key<Conf>());

}  // namespace

netlink::Vlan Conf::data() const {
  const bool is_8021ad = protocol == Protocol::k8021ad;
  return {.id = vlan_id,
          .protocol = is_8021ad ? netlink::Vlan::k8021ad : netlink::Vlan::k8021q,
          .egress = egress,
          .ingress = ingress};
}

constinit const cni::Manual kManual{
    .purpose = "makes the pod's interface from a VLAN of a link of the node",
    .keys = kKeys,
    .facts = kFacts};

Conf Conf::parse(const cni::Request& request) {
  Conf conf;
  const Reader root = request.reader();
  cni::read_keys(root, kKeys, conf);
  plugins::refuse_without_ipam(root, conf);
  return conf;
}

}  // namespace vlan
