#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "netlink/types/ip.h"

/// The pod CIDRs of this node, which a config has by a word in place of a subnet (Calico's list,
/// for host-local) and a file by its numbers. cnitool reads both too.
namespace cni {

inline constexpr std::string_view kPodCidrWords[] = {"usePodCidr", "usePodCidrIPv6"};

/// The family whose pod CIDR text stands for; empty: text is none of the words.
std::optional<netlink::Family> pod_cidr_family(std::string_view text);

/// The node's pod CIDR of a family, from a file of flanneld (subnet_env.h) or one with a network in
/// each line, where `#` begins a comment. Nothing else is asked, nothing is guessed.
/// \throws Error: kTryAgainLater while there is no such file or no network of the family in it,
/// kInvalidConfig for two of them, or for other text.
netlink::Cidr pod_cidr_in(const std::string& path, netlink::Family family);

}  // namespace cni
