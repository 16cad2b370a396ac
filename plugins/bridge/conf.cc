#include "plugins/bridge/conf.h"

#include <bitset>

#include "libcni/args.h"
#include "libcni/ipam.h"

namespace bridge {

namespace {

using cni::cat;
using cni::Reader;

constexpr int kMostVlan = 4094;
using VlanSet = std::bitset<kMostVlan + 1>;

bool is_link_name(const std::string& name) {
  constexpr std::size_t kMost = 15;  // IFNAMSIZ - 1
  return !name.empty() && name.size() <= kMost && name != "." && name != ".." &&
         name.find_first_of("/: \t\n\v\f\r") == std::string::npos;
}

void read_trunk_item(const Reader& item, VlanSet& vlans) {
  if (!item.present() || !item.json().is_object()) {
    item.fail("expected {\"id\": N} or {\"minID\": N, \"maxID\": N}");
  }
  const auto id_at = [&item](const char* key, const char* complaint) -> int {
    const Reader place = item[key];
    if (!place.present()) return 0;
    const auto id = place.as_int(INT32_MIN, INT32_MAX);
    if (id < 1 || id > kMostVlan) place.fail(cat(complaint, ", expected 1 to ", kMostVlan));
    return static_cast<int>(id);
  };
  const int least = id_at("minID", "incorrect trunk minID parameter");
  const int most = id_at("maxID", "incorrect trunk maxID parameter");
  const int id = id_at("id", "incorrect trunk id parameter");
  if (least == 0 && most != 0) {
    item.fail("minID and maxID should be configured simultaneously, minID is missing");
  }
  if (least != 0 && most == 0) {
    item.fail("minID and maxID should be configured simultaneously, maxID is missing");
  }
  if (least > most) item.fail("minID is greater than maxID in trunk parameter");
  for (int vlan = least; vlan != 0 && vlan <= most; ++vlan)
    vlans.set(static_cast<std::size_t>(vlan));
  if (id != 0) vlans.set(static_cast<std::size_t>(id));
}

std::vector<netlink::PortVlan> ranges_of(const VlanSet& vlans) {
  std::vector<netlink::PortVlan> out;
  for (std::uint16_t id = 1; id <= kMostVlan; ++id) {
    if (!vlans.test(id)) continue;
    if (!out.empty() && out.back().last + 1 == id) {
      out.back().last = id;
    } else {
      out.push_back({.first = id, .last = id});
    }
  }
  return out;
}

void read_vlans(const Reader& root, Conf& conf) {
  if (const Reader vlan = root["vlan"]; vlan.present()) {
    const auto id = vlan.as_int(INT32_MIN, INT32_MAX);
    if (id < 0 || id > kMostVlan) {
      vlan.fail(cat("invalid VLAN ID ", id, " (must be between 0 and ", kMostVlan, ")"));
    }
    conf.vlan = static_cast<std::uint16_t>(id);
  }
  const Reader trunk = root["vlanTrunk"];
  VlanSet vlans;
  for (const Reader& item : trunk.elements()) read_trunk_item(item, vlans);
  vlans.reset(conf.vlan);  // the trunk's "tagged" would take the access VLAN's PVID away
  conf.trunk = ranges_of(vlans);
  conf.vlan_filtering = conf.vlan != 0 || trunk.present();
  root.into("preserveDefaultVlan", conf.preserve_default_vlan);
}

// "dns" counts where one of its lists is there, even an empty one, or a domain.
void read_dns(const Reader& root, Conf& conf) {
  const Reader place = root["dns"];
  if (!place.present()) return;
  cni::Dns dns = cni::dns_from(place);
  if (place["nameservers"].present() || place["search"].present() || place["options"].present() ||
      !dns.domain.empty()) {
    conf.dns = std::move(dns);
  }
}

std::optional<netlink::Mac> mac_from(const std::string& text, const std::string& where,
                                     cni::Code code) {
  if (text.empty()) return std::nullopt;
  const auto mac = netlink::Mac::parse(text);
  if (!mac || mac->is_zero() || mac->is_multicast()) {
    throw cni::Error(code, cat(where,
                               ": expected the hardware address of one Ethernet interface, as "
                               "02:00:5e:10:20:30: \"",
                               text, "\""));
  }
  return mac;
}

// runtimeConfig beats args, which beats CNI_ARGS.
void read_mac(const cni::Request& request, Conf& conf) {
  const auto args = cni::parse_args(request.args, {"MAC"});
  const Reader root = request.reader();
  const Reader runtime = root["runtimeConfig"];
  const Reader cni_args = root["args"]["cni"];
  std::string from_runtime;
  std::string from_args;
  runtime.into("mac", from_runtime);
  cni_args.into("mac", from_args);
  if (const auto it = args.find("MAC"); it != args.end()) {
    conf.mac = mac_from(it->second, "CNI_ARGS: MAC", cni::Code::kInvalidEnvironment);
  }
  const auto code = cni::Code::kInvalidConfig;
  if (auto mac = mac_from(from_args, "args.cni.mac", code)) conf.mac = mac;
  if (auto mac = mac_from(from_runtime, "runtimeConfig.mac", code)) conf.mac = mac;
}

void read_flags(const Reader& root, Conf& conf) {
  root.into("isGateway", conf.is_gateway);
  root.into("isDefaultGateway", conf.is_default_gateway);
  conf.is_gateway = conf.is_gateway || conf.is_default_gateway;
  root.into("forceAddress", conf.force_address);
  root.into("hairpinMode", conf.hairpin_mode);
  root.into("promiscMode", conf.promisc_mode);
  root.into("macspoofchk", conf.mac_spoof_check);
  root.into("enabledad", conf.enable_dad);
  root.into("disableContainerInterface", conf.disable_container_interface);
  root.into("portIsolation", conf.port_isolation);
}

void read_masquerade(const Reader& root, Conf& conf) {
  root.into("ipMasq", conf.ip_masq);
  std::string backend;
  root.into("ipMasqBackend", backend);
  if (backend.empty()) return;
  conf.ip_masq_backend = plugins::backend_from(backend);
  if (!conf.ip_masq_backend) {
    root["ipMasqBackend"].fail("unknown ipmasq backend, expected \"nftables\" or \"iptables\"");
  }
}

void refuse_contradictions(const Reader& root, const Conf& conf) {
  constexpr unsigned kLeastMtu = 68;  // RFC 791; the kernel's ETH_MIN_MTU
  if (conf.mtu != 0 && conf.mtu < kLeastMtu) {
    root["mtu"].fail(cat("expected 0 (the kernel's default) or ", kLeastMtu, " to 65535"));
  }
  if (!is_link_name(conf.bridge)) {
    root["bridge"].fail(
        "expected a link name of 1 to 15 bytes without slash, colon and white space");
  }
  if (conf.hairpin_mode && conf.promisc_mode) {
    root["promiscMode"].fail("cannot set hairpin mode and promiscuous mode at the same time");
  }
  if (conf.disable_container_interface && !conf.ipam_type.empty()) {
    root["disableContainerInterface"].fail(
        "cannot use IPAM when DisableContainerInterface flag is set");
  }
  if (conf.vlan != 0 && conf.is_gateway && !is_link_name(conf.vlan_gateway())) {
    root["bridge"].fail(cat("too long for the VLAN's gateway link '", conf.vlan_gateway(),
                            "' (15 bytes at the most)"));
  }
}

// What cannot be read may have been true when the pod was added.
bool read_or_true(const Reader& root, const char* key) {
  bool field = false;
  try {
    root.into(key, field);
  } catch (const cni::Error&) {
    field = true;
  }
  return field;
}

}  // namespace

std::string Conf::vlan_gateway() const { return cat(bridge, ".", vlan); }

Conf Conf::parse(const cni::Request& request) {
  const Reader root = request.reader();
  Conf conf;
  root.into("bridge", conf.bridge);
  root.into("mtu", conf.mtu, 0, 65535);
  read_flags(root, conf);
  read_masquerade(root, conf);
  read_vlans(root, conf);
  read_dns(root, conf);
  read_mac(request, conf);
  conf.ipam_type = cni::ipam_type(request);
  refuse_contradictions(root, conf);
  return conf;
}

DelConf DelConf::parse(const cni::Request& request) {
  const Reader root = request.reader();
  return {.ip_masq = read_or_true(root, "ipMasq"),
          .mac_spoof_check = read_or_true(root, "macspoofchk")};
}

}  // namespace bridge
