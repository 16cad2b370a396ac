#include "plugins/firewall/conf.h"

#include <algorithm>
#include <array>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "plugins/firewall/facts.h"
#include "plugins/names/chains.h"

namespace firewall {

namespace {

using cni::cat;
using cni::Code;
using cni::Reader;

constexpr std::array<std::string_view, 3> kBackends{"iptables", "firewalld", "nftables"};
constexpr std::array<std::string_view, 3> kPolicies{"open", "same-bridge", "isolated"};

void read_backend(const Reader& place, Conf& conf) {
  const std::string text = place.as_string();
  if (text.empty()) return;
  const auto known = std::ranges::find(kBackends, text);
  if (known == kBackends.end()) place.fail("unknown firewall backend");
  conf.backend = static_cast<Backend>(known - kBackends.begin());
}

// The message is the reference plugin's, which refuses it only after its changes.
void read_policy(const Reader& place, Conf& conf) {
  const std::string text = place.as_string();
  if (text.empty()) return;
  const auto known = std::ranges::find(kPolicies, text);
  if (known == kPolicies.end()) {
    place.refuse(cat("unknown ingress policy: \"", text, "\""));
  }
  conf.policy = static_cast<Policy>(known - kPolicies.begin());
}

constexpr const char* kChainPattern = "^[A-Za-z_.][A-Za-z0-9_./-]{0,27}$";
/// Chains of our own and the kernel's, and what follows -j in iptables.
constexpr std::string_view kTakenNames[] = {"INPUT",
                                            "FORWARD",
                                            "OUTPUT",
                                            "PREROUTING",
                                            "POSTROUTING",
                                            "ACCEPT",
                                            "DROP",
                                            "RETURN",
                                            "QUEUE",
                                            names::kForwardChain,
                                            names::kIsolationStage1Chain,
                                            names::kIsolationStage2Chain,
                                            "isolation",
                                            "forward",
                                            "admin"};

// A name for iptables(8), 28 characters at most, and for nft(8).
bool is_chain_name(const std::string& text) {
  const auto is_letter = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '.';
  };
  const auto is_inner = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '/' || c == '-';
  };
  constexpr std::size_t kMaxLength = 28;
  if (text.empty() || text.size() > kMaxLength || !is_letter(text[0])) return false;
  if (!std::ranges::all_of(text, is_inner)) return false;
  return std::ranges::find(kTakenNames, text) == std::end(kTakenNames);
}

// A zone is an argument of a method, and a part of a file's name in firewalld.
bool is_zone(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c != 0x7f; });
}

constexpr auto kKeys = cni::keys(
    cni::custom<read_backend>(
        {.name = "backend",
         .description = "firewall that has the rules. Default: `firewalld` if it owns its name on "
                        "the system bus, else `iptables` if it is installed, else `nftables`",
         .default_text = "detected",
         .type = cni::Type::kEnum,
         .enumeration = kBackends,
         .or_empty = true}),
    cni::custom<read_policy>(
        {.name = "ingressPolicy",
         .description = "the traffic that may reach the pods of the network's bridge",
         .default_text = "`open`",
         .type = cni::Type::kEnum,
         .enumeration = kPolicies,
         .or_empty = true}),
    cni::text<&Conf::admin_chain>(
        {.name = "iptablesAdminChainName",
         .description = "chain for rules of the operator, which precede those of the pods; with "
                        "`nftables` in table `inet patchbay_firewall`",
         .default_text = "`CNI-ADMIN`",
         .pattern = kChainPattern,
         .fits = is_chain_name,
         .expected = "the name of a chain of your own",
         .or_empty = true}),
    cni::text<&Conf::zone>({.name = "firewalldZone",
                            .description = "zone that gets the pod's addresses as sources",
                            .default_text = "`trusted`",
                            .fits = is_zone,
                            .expected = "the name of a zone of firewalld",
                            .or_empty = true}));

// dev_valid_name() of the kernel; what is printable alone, since iptables reads it.
bool is_link_name(const std::string& text) {
  constexpr std::size_t kMaxLength = 15;  // IFNAMSIZ - 1
  return !text.empty() && text.size() <= kMaxLength && std::ranges::all_of(text, [](char c) {
    return c > ' ' && c != 0x7f && c != '"' && c != '\\';
  });
}

cni::Error no_link(Policy policy) {
  return {Code::kInternal,
          cat("interface needs to be set for ingress policy \"", name_of(policy),
              "\", make sure to chain \"firewall\" plugin with \"bridge\""),
          "the first interface of prevResult is the bridge"};
}

}  // namespace

constinit const cni::Manual kManual{
    .purpose = "accepts the traffic of a pod in the node's firewall, and keeps networks apart",
    .keys = kKeys,
    .facts = kFacts};

std::string_view name_of(Backend backend) { return kBackends[static_cast<std::size_t>(backend)]; }
std::string_view name_of(Policy policy) { return kPolicies[static_cast<std::size_t>(policy)]; }

Conf Conf::parse(const cni::Request& request) {
  Conf conf;
  cni::read_keys(request.reader(), kKeys, conf);
  return conf;
}

Conf Conf::readable(const cni::Request& request) noexcept try {
  return parse(request);
} catch (const std::exception&) {  // ADD failed, or had another config
  return {};
}

std::vector<Ip> of_family(const std::vector<Ip>& addresses, Family family) {
  std::vector<Ip> out;
  for (const Ip& ip : addresses) {
    if (ip.family() == family) out.push_back(ip);
  }
  return out;
}

Attachment attachment_of(const cni::Request& request, const std::optional<cni::Result>& result) {
  Attachment out{.key = request.key()};
  if (!result) return out;
  for (const cni::Address& address : result->ips) {
    const Ip& ip = address.cidr.ip;
    const bool known = std::ranges::find(out.addresses, ip) != out.addresses.end();
    if (!known) out.addresses.push_back(ip);
  }
  for (const cni::Interface& one : result->interfaces) {
    if (!one.sandbox.empty() || !is_link_name(one.name)) continue;
    if (&one == &result->interfaces[0]) {
      out.link = one.name;
    } else {
      out.host_links.push_back(one.name);
    }
  }
  return out;
}

// The first interface of macvlan and others is the pod's: the reference plugin takes its name for
// that of a bridge, and drops traffic of the node's link of the same name.
void require_link(const Conf& conf, const cni::Result& result) {
  if (conf.policy == Policy::kOpen) return;
  if (result.interfaces.empty() || !result.interfaces[0].sandbox.empty())
    throw no_link(conf.policy);
  if (result.interfaces[0].name.empty()) {
    throw cni::Error(Code::kInternal, "got empty bridge name",
                     "the first interface of prevResult has no name");
  }
  if (is_link_name(result.interfaces[0].name)) return;
  throw cni::Error(Code::kInternal, cat("prevResult.interfaces[0].name: not the name of a link: '",
                                        result.interfaces[0].name, "'"));
}

}  // namespace firewall
