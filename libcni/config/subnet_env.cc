#include "libcni/config/subnet_env.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "netlink/types/fd.h"

namespace cni {

namespace {

using netlink::Cidr;
using netlink::Family;

constexpr std::array<std::string_view, 6> kKeys = {"FLANNEL_NETWORK", "FLANNEL_IPV6_NETWORK",
                                                   "FLANNEL_SUBNET",  "FLANNEL_IPV6_SUBNET",
                                                   "FLANNEL_MTU",     "FLANNEL_IPMASQ"};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\v\f";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

std::string_view unquoted(std::string_view text) {
  if (text.size() < 2 || (text.front() != '"' && text.front() != '\'')) return text;
  if (text.front() != text.back()) return text;
  return trimmed(text.substr(1, text.size() - 2));
}

/// One line, and where it is.
struct Line {
  std::string_view key, value;
  const std::string& path;
  std::size_t number;

  [[noreturn]] void fail(const std::string& msg, std::string_view expected) const {
    throw Error(Code::kInvalidConfig, msg,
                cat(path, ":", number, ": ", key, ": expected ", expected));
  }
};

Cidr cidr_in(const Line& line, std::string_view text, Family family) {
  const auto cidr = Cidr::parse(text);
  const bool is_v4 = family == Family::kIpv4;
  const auto expected =
      is_v4 ? "IPv4, for example 10.244.1.1/24" : "IPv6, for example fd00:1::1/64";
  if (!cidr || cidr->ip.family() != family) {
    line.fail(cat("invalid CIDR address: ", text), expected);
  }
  return *cidr;
}

std::vector<Cidr> networks_in(const Line& line, Family family) {
  std::vector<Cidr> out;
  std::string_view rest = line.value;
  for (bool is_last = false; !is_last;) {
    const auto comma = rest.find(',');
    is_last = comma == std::string_view::npos;
    const Cidr network = cidr_in(line, trimmed(rest.substr(0, comma)), family).network();
    if (std::ranges::find(out, network) == out.end()) out.push_back(network);
    if (!is_last) rest.remove_prefix(comma + 1);
  }
  return out;
}

std::uint32_t mtu_in(const Line& line) {
  std::uint32_t mtu = 0;
  const std::string_view text = line.value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mtu);
  if (error == std::errc() && end == text.data() + text.size()) return mtu;
  const bool is_large = error == std::errc::result_out_of_range;
  line.fail(cat("strconv.ParseUint: parsing \"", text,
                "\": ", is_large ? "value out of range" : "invalid syntax"),
            "an MTU, for example 1450");
}

void read_line(const Line& line, SubnetEnv& env) {
  if (line.key == kKeys[0]) env.networks = networks_in(line, Family::kIpv4);
  if (line.key == kKeys[1]) env.ipv6_networks = networks_in(line, Family::kIpv6);
  if (line.key == kKeys[2]) env.subnet = cidr_in(line, line.value, Family::kIpv4);
  if (line.key == kKeys[3]) env.ipv6_subnet = cidr_in(line, line.value, Family::kIpv6);
  if (line.key == kKeys[4]) env.mtu = mtu_in(line);
  if (line.key == kKeys[5]) env.ip_masq = line.value == "true";
}

std::string_view without_export(std::string_view text) {
  constexpr std::string_view kExport = "export";
  if (!text.starts_with(kExport)) return text;
  const std::string_view rest = text.substr(kExport.size());
  return rest.starts_with(' ') || rest.starts_with('\t') ? trimmed(rest) : text;
}

}  // namespace

SubnetEnv SubnetEnv::parse(std::string_view text, const std::string& path) {
  SubnetEnv env;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view content = without_export(trimmed(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto equals = content.find('=');
    const Line line{trimmed(content.substr(0, equals)), {}, path, number};
    if (std::ranges::find(kKeys, line.key) == kKeys.end()) continue;
    if (equals == std::string_view::npos) line.fail(cat("no '=' after ", line.key), "KEY=VALUE");
    read_line({line.key, unquoted(trimmed(content.substr(equals + 1))), path, number}, env);
  }
  return env;
}

std::optional<SubnetEnv> SubnetEnv::read(const std::string& path) {
  const auto text = netlink::read_regular_file(path);
  if (!text) return std::nullopt;
  return parse(*text, path);
}

std::vector<std::string_view> SubnetEnv::missing() const {
  std::vector<std::string_view> out;
  if (networks.empty() && ipv6_networks.empty()) out.insert(out.end(), {kKeys[0], kKeys[1]});
  if (!subnet && !ipv6_subnet) out.insert(out.end(), {kKeys[2], kKeys[3]});
  if (!mtu) out.push_back(kKeys[4]);
  if (!ip_masq) out.push_back(kKeys[5]);
  return out;
}

JsonValue SubnetEnv::delegate_config(JsonValue delegate, JsonValue ipam) const {
  using nlohmann::json;
  ipam->emplace("type", kDelegateIpam);
  ipam->erase("ranges");
  json ranges;
  for (const auto& one : {subnet, ipv6_subnet}) {
    if (one) ranges.push_back(json::array({json{{"subnet", one->network().str()}}}));
  }
  if (!ranges.empty()) ipam->emplace("ranges", std::move(ranges));
  delegate->emplace("type", kDelegate);
  if (ip_masq) delegate->emplace("ipMasq", !*ip_masq);  // flanneld does it, or the delegate
  if (mtu) delegate->emplace("mtu", *mtu);
  if (delegate->at("type") == kDelegate) delegate->emplace("isGateway", true);
  (*delegate)["ipam"] = std::move(*ipam);
  return delegate;
}

}  // namespace cni
