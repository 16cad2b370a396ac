#include "libcni/config/pod_cidr.h"

#include <algorithm>
#include <vector>

#include "libcni/common/error.h"
#include "libcni/common/split.h"
#include "libcni/config/subnet_env.h"
#include "netlink/types/fd.h"

namespace cni {

namespace {

using netlink::Cidr;
using netlink::Family;

// The words of each line that has some, without comments.
std::vector<std::string_view> words_in(std::string_view text) {
  std::vector<std::string_view> out;
  for (const std::string_view line : split(text, "\n")) {
    for (const std::string_view word : split(line.substr(0, line.find('#')), " \t\r\v\f")) {
      out.push_back(word);
    }
  }
  return out;
}

std::vector<Cidr> networks_in(const std::vector<std::string_view>& words, const std::string& path) {
  std::vector<Cidr> out;
  for (const std::string_view word : words) {
    const auto cidr = Cidr::parse(word);
    if (!cidr) {
      throw Error(Code::kInvalidConfig, cat("read '", path, "': no network: \"", word, "\""),
                  "expected FLANNEL_SUBNET and FLANNEL_IPV6_SUBNET, or a network in each line");
    }
    out.push_back(cidr->network());
  }
  return out;
}

std::vector<Cidr> networks_of(const SubnetEnv& env) {
  std::vector<Cidr> out;
  for (const auto& one : {env.subnet, env.ipv6_subnet}) {
    if (one) out.push_back(one->network());
  }
  return out;
}

}  // namespace

std::optional<Family> pod_cidr_family(std::string_view text) {
  if (text == kPodCidrWords[0]) return Family::kIpv4;
  if (text == kPodCidrWords[1]) return Family::kIpv6;
  return std::nullopt;
}

Cidr pod_cidr_in(const std::string& path, Family family) {
  const char* const what = family == Family::kIpv4 ? "IPv4" : "IPv6";
  const auto text = as_error([&] { return netlink::read_regular_file(path); });
  if (!text) {
    throw Error(Code::kTryAgainLater, cat("open ", path, ": no such file or directory"),
                "the pod CIDR of this node is not known yet");
  }
  const auto words = words_in(*text);
  const bool is_env = std::ranges::any_of(
      words, [](std::string_view word) { return word.find('=') != std::string_view::npos; });
  auto found = is_env ? networks_of(SubnetEnv::parse(*text, path)) : networks_in(words, path);
  std::erase_if(found, [&](const Cidr& one) { return one.ip.family() != family; });
  if (found.empty()) {
    throw Error(Code::kTryAgainLater, cat("read '", path, "': it has no ", what, " network"),
                "the pod CIDR of this node is not known yet, or has not this family");
  }
  if (found.size() > 1) {
    throw Error(Code::kInvalidConfig, cat("read '", path, "': it has several ", what, " networks"),
                cat(found[0].str(), " and ", found[1].str(), ", expected one"));
  }
  return found.front();
}

}  // namespace cni
