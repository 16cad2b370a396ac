#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/config/json_value.h"
#include "netlink/types/ip.h"

/// The file subnet.env, in which flanneld has the subnet of its node.
namespace cni {

inline constexpr const char* kSubnetEnv = "/run/flannel/subnet.env";
/// The plugins that flannel calls where `delegate` and `ipam` name none.
inline constexpr const char* kDelegate = "bridge";
inline constexpr const char* kDelegateIpam = "host-local";

/// What flanneld writes (flannel, pkg/subnet/subnet.go), and the forms that a shell would read as
/// well: blanks around values and commas, quotes, `export`. Of a repeated key the last one counts,
/// other keys and lines are ignored.
struct SubnetEnv {
  /// Host bits are cleared, an equal one is there once, the order is the file's.
  std::vector<netlink::Cidr> networks, ipv6_networks;
  /// As written: the address is that of the node's bridge.
  std::optional<netlink::Cidr> subnet, ipv6_subnet;
  std::optional<std::uint32_t> mtu;
  /// FLANNEL_IPMASQ: true only for the text `true`, as in flannel.
  std::optional<bool> ip_masq;

  /// \param path for the errors.
  /// \throws Error(kInvalidConfig): the message is flannel's ("invalid CIDR address: x"), the
  /// details have file, line and key.
  static SubnetEnv parse(std::string_view text, const std::string& path);
  /// Empty: the file does not exist. \throws as parse(), and netlink::Error.
  static std::optional<SubnetEnv> read(const std::string& path);

  /// The keys that a pod's network needs and the file does not have, in flannel's order. Those of
  /// one family are enough.
  std::vector<std::string_view> missing() const;

  /// The config that the plugin flannel makes for its delegate, without the routes and what only a
  /// call knows: the objects `delegate` and `ipam` of its config, or {}, completed from this file
  /// as far as it has the values. `delegate.type` is absent or a string.
  JsonValue delegate_config(JsonValue delegate, JsonValue ipam) const;
};

}  // namespace cni
