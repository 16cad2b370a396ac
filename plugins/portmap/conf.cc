#include "plugins/portmap/conf.h"

#include <charconv>

#include "libcni/error.h"

namespace portmap {

namespace {

using cni::cat;
using cni::Reader;

constexpr std::int64_t kMostPort = 65535;

std::uint16_t read_port(const Reader& entry, const char* key, const char* complaint) {
  const Reader place = entry[key];
  const auto port = place.as_int(INT32_MIN, INT32_MAX);
  if (port < 1) place.fail(complaint);
  if (port > kMostPort) place.fail(cat("expected a port number from 1 to ", kMostPort));
  return static_cast<std::uint16_t>(port);
}

Mapping read_mapping(const Reader& entry) {
  Mapping mapping;
  mapping.container_port = read_port(entry, "containerPort", "Invalid container port number");
  mapping.host_port = read_port(entry, "hostPort", "Invalid host port number");
  const Reader protocol = entry["protocol"];
  const bool is_text = protocol.present() && protocol.json().is_string();
  const auto known = is_text ? protocol_from(protocol.as_string()) : std::nullopt;
  if (!known) protocol.fail("expected \"tcp\", \"udp\" or \"sctp\"");
  mapping.protocol = *known;
  entry.into("hostIP", mapping.host_ip);
  if (mapping.host_ip && mapping.host_ip->is_multicast()) {
    entry["hostIP"].fail("expected an address of the node, not a group's");
  }
  return mapping;
}

enum class Style { kNone, kIptables, kNftables };

// Conditions are in the words of the backend; the first one tells which.
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

void read_backend(const Reader& root, Conf& conf) {
  const std::string for_iptables = options_in(conf.options, Style::kIptables);
  const std::string for_nftables = options_in(conf.options, Style::kNftables);
  const Reader place = root["backend"];
  if (place.present()) {
    const std::string text = place.as_string();
    if (text != "iptables" && text != "nftables") {
      place.fail(cat("unrecognized backend \"", text, "\", expected \"nftables\" or \"iptables\""));
    }
    conf.backend = text == "iptables" ? Backend::kIptables : Backend::kNftables;
  } else if (!for_iptables.empty()) {
    conf.backend = Backend::kIptables;
  } else if (!for_nftables.empty()) {
    conf.backend = Backend::kNftables;
  }
  const bool iptables = conf.backend == Backend::kIptables;
  const std::string& wrong = iptables ? for_nftables : for_iptables;
  if (!conf.backend || wrong.empty()) return;
  throw cni::Error(
      cni::Code::kInvalidConfig,
      cat(iptables ? "iptables" : "nftables", " backend was requested but configuration contains ",
          iptables ? "nftables" : "iptables", "-specific options [", wrong, "]"));
}

// Whether some pod could get the same port of the same address by both.
bool overlap(const Mapping& a, const Mapping& b) {
  if (a.protocol != b.protocol || a.host_port != b.host_port) return false;
  if (a.host_ip && b.host_ip) return a.host_ip == b.host_ip;
  const auto& one = a.host_ip ? a.host_ip : b.host_ip;
  return !one || one->is_unspecified();
}

// One port cannot lead to two places.
void refuse_contradiction(const std::vector<Mapping>& mappings, const Reader& newest) {
  for (const Mapping& other : mappings) {
    if (other.container_port != mappings.back().container_port && overlap(other, mappings.back())) {
      newest["hostPort"].fail("mapped to another container port already");
    }
  }
}

std::vector<std::string> read_conditions(const Reader& root, const char* key) {
  std::vector<std::string> out;
  for (const Reader& element : root[key].elements()) {
    out.push_back(element.as_string());
    // Neither tool has them in a condition, and both would begin something else there.
    if (out.back().find_first_of(";\n\r") != std::string::npos) {
      element.fail("expected one condition, without semicolon and line break");
    }
  }
  if (out.size() > 1 && style_of(out) == Style::kNone) {
    root[key].elements()[0].fail("expected a condition in the words of iptables or of nft");
  }
  if (style_of(out) == Style::kNone) out.clear();
  return out;
}

void read_options(const Reader& root, Options& options) {
  root.into("snat", options.snat);
  root.into("masqAll", options.masq_all);
  if (options.masq_all && !options.snat) root["masqAll"].fail("cannot masquerade without snat");
  root.into("externalSetMarkChain", options.external_set_mark_chain);
  if (const Reader bit = root["markMasqBit"]; bit.present()) {
    if (!options.external_set_mark_chain.empty()) {
      bit.fail("Cannot specify externalSetMarkChain and markMasqBit");
    }
    const auto number = bit.as_int(INT32_MIN, INT32_MAX);
    if (number < 0 || number > 31) bit.fail("MasqMarkBit must be between 0 and 31");
    options.mark_bit = static_cast<unsigned>(number);
  }
  options.conditions_v4 = read_conditions(root, "conditionsV4");
  options.conditions_v6 = read_conditions(root, "conditionsV6");
}

OnConflict read_on_conflict(const Reader& root) {
  const Reader place = root["hostPortConflict"];
  if (!place.present()) return OnConflict::kRefuse;
  const std::string text = place.as_string();
  if (text == "refuse") return OnConflict::kRefuse;
  if (text == "refuse-claimed") return OnConflict::kRefuseClaimed;
  if (text == "replace") return OnConflict::kReplace;
  place.fail("expected \"refuse\", \"refuse-claimed\" or \"replace\"");
}

std::optional<std::uint16_t> port_from(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

// 22, "22", "10250-10259", "53/udp".
DeniedPorts read_denied(const Reader& entry) {
  DeniedPorts out;
  if (entry.present() && entry.json().is_number()) {
    out.first = out.last = static_cast<std::uint16_t>(entry.as_int(1, kMostPort));
    return out;
  }
  const std::string text = entry.as_string();
  const auto slash = text.find('/');
  const std::string ports = text.substr(0, slash);
  const auto dash = ports.find('-');
  const auto first = port_from(ports.substr(0, dash));
  const auto last = dash == std::string::npos ? first : port_from(ports.substr(dash + 1));
  if (slash != std::string::npos) out.protocol = protocol_from(text.substr(slash + 1));
  if (!first || !last || *last < *first || (slash != std::string::npos && !out.protocol)) {
    entry.fail(
        "expected a port, a range or either with a protocol, as 22, \"6000-6100\", \"53/udp\"");
  }
  out.first = *first;
  out.last = *last;
  return out;
}

}  // namespace

std::string_view name_of(Backend backend) {
  return backend == Backend::kNftables ? "nftables" : "iptables";
}

Conf Conf::parse(const cni::Request& request) {
  const Reader root = request.reader();
  Conf conf;
  read_options(root, conf.options);
  read_backend(root, conf);
  conf.on_conflict = read_on_conflict(root);
  for (const Reader& entry : root["deniedHostPorts"].elements()) {
    conf.denied.push_back(read_denied(entry));
  }
  for (const Reader& entry : root["runtimeConfig"]["portMappings"].elements()) {
    conf.mappings.push_back(read_mapping(entry));
    refuse_contradiction(conf.mappings, entry);
  }
  return conf;
}

std::vector<Mapping> readable_mappings(const cni::Request& request) {
  std::vector<Mapping> out;
  try {
    for (const Reader& entry : request.reader()["runtimeConfig"]["portMappings"].elements()) {
      try {
        out.push_back(read_mapping(entry));
      } catch (const cni::Error&) {  // was never added
      }
    }
  } catch (const cni::Error&) {  // not a list: neither was anything of it
  }
  return out;
}

}  // namespace portmap
