#include "plugins/portmap/conf.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "libcni/config/keys.h"
#include "plugins/portmap/facts.h"

namespace portmap {

namespace {

using cni::cat;
using cni::Reader;
using cni::Type;

constexpr std::int64_t kMaxPort = 65535;
constexpr std::int64_t kMaxMarkBit = 31;

bool is_integer(const Reader& place) { return place.present() && place.json().is_number_integer(); }

// The message for a number below 1 is the reference plugin's.
std::uint16_t port_at(const Reader& place, const char* complaint) {
  if (is_integer(place) && place.json() < 1) {
    place.refuse(cat(complaint, ": ", place.json().dump()), "expected an integer from 1 to 65535");
  }
  return static_cast<std::uint16_t>(place.as_int(1, kMaxPort));
}

void read_container_port(const Reader& place, Mapping& mapping) {
  mapping.container_port = port_at(place, "Invalid container port number");
}

void read_host_port(const Reader& place, Mapping& mapping) {
  mapping.host_port = port_at(place, "Invalid host port number");
}

constexpr const char* kProtocols = "\"tcp\", \"udp\" or \"sctp\"";

bool is_protocol(const std::string& text) { return protocol_from(text).has_value(); }

void read_protocol(const Reader& place, Mapping& mapping) {
  const bool is_text = place.present() && place.json().is_string();
  const auto known = is_text ? protocol_from(place.as_string()) : std::nullopt;
  if (!known) place.fail(cat("expected ", kProtocols));
  mapping.protocol = *known;
}

void read_host_ip(const Reader& place, Mapping& mapping) {
  if (place.as_string().empty()) return;
  mapping.host_ip = place.as_ip();
  if (mapping.host_ip->is_multicast()) place.fail("expected a unicast address of the node");
}

constexpr auto kMappingKeys = cni::keys(
    cni::custom<read_container_port>({.name = "containerPort",
                                      .description = "port in the pod",
                                      .type = Type::kInteger,
                                      .minimum = 1,
                                      .maximum = kMaxPort,
                                      .required = true}),
    cni::custom<read_host_port>({.name = "hostPort",
                                 .description = "port of the node",
                                 .type = Type::kInteger,
                                 .minimum = 1,
                                 .maximum = kMaxPort,
                                 .required = true}),
    cni::custom<read_protocol>({.name = "protocol",
                                .description = "`tcp`, `udp` or `sctp`",
                                .pattern = "^([Tt][Cc][Pp]|[Uu][Dd][Pp]|[Ss][Cc][Tt][Pp])$",
                                .fits = is_protocol,
                                .expected = kProtocols,
                                .required = true}),
    cni::custom<read_host_ip>({.name = "hostIP",
                               .description = "address of the node; `0.0.0.0` is every IPv4 "
                                              "address, `::` every IPv6 address",
                               .default_text = "every local address",
                               .type = Type::kIp,
                               .or_empty = true}));

Mapping read_mapping(const Reader& entry) {
  Mapping mapping;
  cni::read_keys(entry, kMappingKeys, mapping);
  return mapping;
}

enum class Style { kNone, kIptables, kNftables };

// Conditions are in the syntax of one backend; the first word decides which.
Style style_of(const std::vector<std::string>& conditions) {
  if (conditions.empty() || conditions[0].empty()) return Style::kNone;
  return conditions[0][0] == '-' || conditions[0][0] == '!' ? Style::kIptables : Style::kNftables;
}

std::string options_in(const Options& options, Style style) {
  std::string out;
  const auto mention = [&out](const char* key) { out += cat(out.empty() ? "" : " ", key); };
  if (style == Style::kIptables && !options.external_set_mark_chain.empty()) {
    mention("externalSetMarkChain");
  }
  if (style_of(options.conditions_v4) == style) mention("conditionsV4");
  if (style_of(options.conditions_v6) == style) mention("conditionsV6");
  return out;
}

void read_backend(const Reader& place, Conf& conf) {
  const std::string text = place.as_string();
  if (text != "iptables" && text != "nftables") {
    place.refuse(cat("unrecognized backend \"", text, "\""),
                 "expected \"nftables\" or \"iptables\"");
  }
  conf.backend = text == "iptables" ? BackendName::kIptables : BackendName::kNftables;
}

// Options of one backend select it, or conflict with `backend`.
void select_backend(Conf& conf) {
  const std::string for_iptables = options_in(conf.options, Style::kIptables);
  const std::string for_nftables = options_in(conf.options, Style::kNftables);
  if (!conf.backend && !for_iptables.empty()) conf.backend = BackendName::kIptables;
  if (!conf.backend && !for_nftables.empty()) conf.backend = BackendName::kNftables;
  const bool iptables = conf.backend == BackendName::kIptables;
  const std::string& wrong = iptables ? for_nftables : for_iptables;
  if (!conf.backend || wrong.empty()) return;
  const char* const chosen = iptables ? "iptables" : "nftables";
  const std::string& right = iptables ? for_iptables : for_nftables;
  throw cni::Error(cni::Code::kInvalidConfig,
                   cat(chosen, " backend was requested but configuration contains ",
                       iptables ? "nftables" : "iptables", "-specific options [", wrong, "]"),
                   cat(chosen, " because of ", right.empty() ? "backend" : right));
}

// Whether both map the same port of the same address.
bool overlap(const Mapping& a, const Mapping& b) {
  if (a.protocol != b.protocol || a.host_port != b.host_port) return false;
  if (a.host_ip && b.host_ip) return a.host_ip == b.host_ip;
  const auto& one = a.host_ip ? a.host_ip : b.host_ip;
  return !one || one->is_unspecified();
}

// A host port leads to one container port.
void refuse_contradiction(const std::vector<Mapping>& mappings, const Reader& newest) {
  for (const Mapping& other : mappings) {
    if (other.container_port != mappings.back().container_port && overlap(other, mappings.back())) {
      newest["hostPort"].fail(cat("mapped to container port ", other.container_port, " already"));
    }
  }
}

void read_mappings(const Reader& list, Conf& conf) {
  for (const Reader& entry : list.elements()) {
    conf.mappings.push_back(read_mapping(entry));
    refuse_contradiction(conf.mappings, entry);
  }
}

// In both tools these characters end a command; neither uses them in a match.
bool is_condition(const std::string& text) {
  return text.find_first_of(std::string_view(";\n\r\0", 4)) == std::string::npos;
}

std::vector<std::string> conditions_at(const Reader& list) {
  std::vector<std::string> out;
  for (const Reader& element : list.elements()) {
    out.push_back(element.as_string());
    if (!is_condition(out.back())) {
      element.fail("expected one condition, without semicolon and line break");
    }
  }
  if (out.size() > 1 && style_of(out) == Style::kNone) {
    list.elements()[0].fail("expected a match in the syntax of iptables or nft");
  }
  if (style_of(out) == Style::kNone) out.clear();
  return out;
}

template <std::vector<std::string> Options::*conditions>
void read_conditions(const Reader& list, Conf& conf) {
  conf.options.*conditions = conditions_at(list);
}

void read_mark_bit(const Reader& place, Conf& conf) {
  if (!conf.options.external_set_mark_chain.empty()) {
    place.refuse("Cannot specify externalSetMarkChain and markMasqBit");
  }
  if (!is_integer(place)) place.fail("expected an integer from 0 to 31");
  if (place.json() < 0 || place.json() > kMaxMarkBit) {
    place.refuse("MasqMarkBit must be between 0 and 31");
  }
  conf.options.mark_bit = place.json().get<unsigned>();
}

std::optional<std::uint16_t> port_from(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

constexpr const char* kPorts =
    "a port or a range, with or without protocol, for example 22, \"6000-6100\" or \"53/udp\"";

std::optional<DeniedPorts> ports_from(const std::string& text) {
  const auto slash = text.find('/');
  const std::string ports = text.substr(0, slash);
  const auto dash = ports.find('-');
  const auto first = port_from(ports.substr(0, dash));
  const auto last = dash == std::string::npos ? first : port_from(ports.substr(dash + 1));
  const auto protocol =
      slash == std::string::npos ? std::nullopt : protocol_from(text.substr(slash + 1));
  if (!first || !last || *last < *first || (slash != std::string::npos && !protocol)) {
    return std::nullopt;
  }
  return DeniedPorts{.protocol = protocol, .first = *first, .last = *last};
}

bool is_ports(const std::string& text) { return ports_from(text).has_value(); }

DeniedPorts denied_at(const Reader& entry) {
  if (entry.present() && entry.json().is_number()) {
    const auto port = static_cast<std::uint16_t>(entry.as_int(1, kMaxPort));
    return {.protocol = {}, .first = port, .last = port};
  }
  const bool is_text = entry.present() && entry.json().is_string();
  const auto ports = is_text ? ports_from(entry.as_string()) : std::nullopt;
  if (!ports) entry.fail(cat("expected ", kPorts));
  return *ports;
}

void read_denied(const Reader& list, Conf& conf) {
  for (const Reader& entry : list.elements()) conf.denied.push_back(denied_at(entry));
}

constexpr std::string_view kBackends[] = {"nftables", "iptables"};
constexpr std::string_view kOnConflict[] = {"refuse", "refuse-claimed", "replace"};

constexpr auto kRuntimeKeys =
    cni::keys(cni::custom<read_mappings>({.name = "portMappings",
                                          .description = "ports of the node that lead to the pod",
                                          .type = Type::kObject,
                                          .lists = 1,
                                          .keys = kMappingKeys}));

constexpr auto kKeys = cni::keys(
    cni::custom<read_backend>(
        {.name = "backend",
         .description = "default: `iptables` if `externalSetMarkChain` or conditions in iptables "
                        "syntax are set, or if kube-proxy is in IPVS mode, else `nftables` if the "
                        "kernel has it with NAT, else `iptables`",
         .default_text = "detected",
         .type = Type::kEnum,
         .enumeration = kBackends}),
    cni::key<&Conf::options, &Options::snat>(
        {.name = "snat",
         .description =
             "masquerades traffic that the pod could not answer otherwise: from the pod itself, "
             "from its subnet, and from 127.0.0.1",
         .default_text = "true"}),
    cni::key<&Conf::options, &Options::masq_all>(
        {.name = "masqAll",
         .description = "masquerades all traffic to the ports, so that the pod does not see client "
                        "addresses. Without `snat` it has no effect"}),
    cni::key<&Conf::options, &Options::external_set_mark_chain>(
        {.name = "externalSetMarkChain",
         .description =
             "chain of table `nat` that marks packets, for example `KUBE-MARK-MASQ`; the "
             "owner of the chain masquerades them. Only with the backend `iptables`, "
             "not with `markMasqBit`"}),
    cni::custom<read_mark_bit>(
        {.name = "markMasqBit",  // after externalSetMarkChain
         .description = "bit of the packet mark that selects packets for masquerading",
         .default_text = "13",
         .type = Type::kInteger,
         .maximum = kMaxMarkBit}),
    cni::custom<read_conditions<&Options::conditions_v4>>(
        {.name = "conditionsV4",
         .description = "redirects only IPv4 traffic that also meets these matches, in the syntax "
                        "of the backend: `[\"!\", \"-s\", \"192.0.2.0/24\"]` or `[\"ip\", "
                        "\"saddr\", \"!=\", \"192.0.2.0/24\"]`. nft syntax requires nft on the "
                        "node",
         .lists = 1,
         .pattern = "^[^;\\n\\r\\u0000]*$",
         .fits = is_condition,
         .expected = "one condition, without semicolon and line break"}),
    cni::custom<read_conditions<&Options::conditions_v6>>(
        {.name = "conditionsV6",
         .description = "as `conditionsV4`, for IPv6",
         .lists = 1,
         .pattern = "^[^;\\n\\r\\u0000]*$",
         .fits = is_condition,
         .expected = "one condition, without semicolon and line break"}),
    cni::key<&Conf::on_conflict>(
        {.name = "hostPortConflict",
         .description = "`refuse` fails if another container or a process of the node has the "
                        "port, `refuse-claimed` if a container has it; `replace` takes the port",
         .default_text = "`refuse`",
         .enumeration = kOnConflict}),
    cni::custom<read_denied>(
        {.name = "deniedHostPorts",
         .description = "host ports that no pod may use: `22`, `\"10250-10259\"`, `\"53/udp\"`",
         .type = Type::kIntegerOrString,
         .lists = 1,
         .minimum = 1,
         .maximum = kMaxPort,
         .pattern = "^[0-9]{1,5}(-[0-9]{1,5})?(/([Tt][Cc][Pp]|[Uu][Dd][Pp]|[Ss][Cc][Tt][Pp]))?$",
         .fits = is_ports,
         .expected = kPorts}),
    cni::part<kRuntimeKeys>({.name = "runtimeConfig", .open = true}));

}  // namespace

constinit const cni::Manual kManual{
    .purpose = "makes ports of a pod reachable at the node's addresses (`hostPort`)",
    .keys = kKeys,
    .facts = kFacts};

std::string text_of(const std::vector<std::string>& conditions) {
  std::string out;
  for (const std::string& one : conditions) out += cat(out.empty() ? "" : " ", one);
  return out;
}

std::string_view name_of(BackendName backend) {
  return backend == BackendName::kNftables ? "nftables" : "iptables";
}

std::string Options::describe_conditions(Family family) const {
  return cat(family == Family::kIpv4 ? "conditionsV4: '" : "conditionsV6: '",
             text_of(conditions(family)), "'");
}

std::string DeniedPorts::str() const {
  std::string out = cat(first);
  if (last != first) out += cat("-", last);
  return protocol ? cat(out, "/", name_of(*protocol)) : out;
}

Conf Conf::parse(const cni::Request& request) try {
  const Reader root = request.reader();
  Conf conf;
  cni::read_keys(root, kKeys, conf);
  select_backend(conf);
  return conf;
} catch (const cni::Error& e) {
  // The reference plugin has this before its sentences, which are those with details, but not with
  // CHECK. Its STATUS does not read the config: ours refuses what ADD would, in the words of ADD.
  if (e.details().empty() && !e.is_mistyped()) throw;
  const bool is_check = request.command == cni::Command::kCheck;
  throw cni::Error(e.code(),
                   cat(is_check ? "" : "failed to parse config: ",
                       e.is_mistyped() ? "failed to parse network configuration: " : "", e.what()),
                   e.details());
}

std::vector<Mapping> readable_mappings(const cni::Request& request) {
  std::vector<Mapping> out;
  try {
    for (const Reader& entry : request.reader()["runtimeConfig"]["portMappings"].elements()) {
      try {
        out.push_back(read_mapping(entry));
      } catch (const cni::Error&) {  // ADD failed
      }
    }
  } catch (const cni::Error&) {  // not a list: ADD failed
  }
  return out;
}

}  // namespace portmap
