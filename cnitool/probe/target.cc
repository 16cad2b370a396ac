#include "cnitool/probe/target.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

namespace tool::probe {

namespace {

constexpr std::string_view kDigits = "0123456789";

bool may_be_pod(std::string_view text) {
  constexpr std::string_view kMore = "_.-/";
  const bool is_clean = std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || kDigits.find(c) != kDigits.npos ||
           kMore.find(c) != kMore.npos;
  });
  // "10.0.0" is an address that lacks a part.
  const bool is_number = text.find_first_not_of("0123456789.") == std::string_view::npos;
  return !text.empty() && is_clean && (!is_number || text.find('.') == std::string_view::npos);
}

std::optional<std::uint16_t> port_of(std::string_view text) {
  std::uint16_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  const bool is_whole = error == std::errc{} && end == text.data() + text.size();
  return is_whole && out != 0 ? std::optional(out) : std::nullopt;
}

std::optional<Target> with_port(std::string host, Target out) {
  const bool is_bracketed = host.starts_with('[') && host.ends_with(']');
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  const auto ip = Ip::parse(host);
  if (ip && ip->is_v4() != is_bracketed) {
    out.ip = *ip;
    return out;
  }
  if (ip || is_bracketed || !may_be_pod(host)) return std::nullopt;
  out.kind = Target::Kind::kPod;
  out.pod = host;
  return out;
}

bool is_host(const Ip& ip) {
  return !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast() &&
         ip != *Ip::parse("255.255.255.255");
}

}  // namespace

std::optional<Target> target_of(const std::string& text) {
  if (text == "dns") return Target{.kind = Target::Kind::kNameServers};
  if (const auto ip = Ip::parse(text)) return Target{.ip = *ip};
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) {
    if (!may_be_pod(text)) return std::nullopt;
    return Target{.kind = Target::Kind::kPod, .pod = text};
  }
  Target out;
  std::string_view port = std::string_view(text).substr(colon + 1);
  for (const std::string_view protocol : {"/udp", "/tcp"}) {
    if (!port.ends_with(protocol)) continue;
    port.remove_suffix(protocol.size());
    out.is_udp = protocol == "/udp";
    break;
  }
  const auto number = port_of(port);
  if (!number) return std::nullopt;
  out.port = *number;
  return with_port(text.substr(0, colon), out);
}

std::string refusal_of_target(const std::string& text) {
  const auto target = target_of(text);
  if (!target) {
    return "expected a pod, dns, ADDRESS or ADDRESS:PORT[/udp], of IPv6 with a port [ADDRESS]:PORT";
  }
  const bool is_none = target->kind == Target::Kind::kAddress && !is_host(target->ip);
  return is_none ? "expected the address of another host" : "";
}

std::string refusal_of_source(const std::string& text) {
  const auto ip = Ip::parse(text);
  return ip && is_host(*ip) && !ip->is_link_local() ? ""
                                                    : "expected the IP address of another host";
}

}  // namespace tool::probe
