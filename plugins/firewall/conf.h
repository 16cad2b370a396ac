#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/config/keys.h"
#include "libcni/plugin/request.h"
#include "plugins/names/chains.h"

namespace firewall {

using netlink::Family;
using netlink::Ip;

enum class Backend : std::uint8_t { kIptables, kFirewalld, kNftables };
std::string_view name_of(Backend backend);

/// The traffic that may reach the pods of a network. Each policy contains the one before.
enum class Policy : std::uint8_t {
  kOpen,        ///< everything
  kSameBridge,  ///< nothing from other bridges with a policy
  kIsolated,    ///< nor from pods of the same bridge
};
std::string_view name_of(Policy policy);

struct Conf {
  std::optional<Backend> backend;  ///< absent: detected
  std::string admin_chain = names::kAdminChain;
  std::string zone = "trusted";  ///< of firewalld
  Policy policy = Policy::kOpen;

  /// \throws cni::Error(kInvalidConfig) with the JSON path of the key.
  static Conf parse(const cni::Request& request);
  /// For DEL and GC: defaults where ADD would refuse the config.
  static Conf readable(const cni::Request& request) noexcept;
};

/// The firewall's view of one attachment.
struct Attachment {
  cni::AttachmentKey key;
  std::vector<Ip> addresses = {};  ///< each once
  std::string link = {};           ///< the bridge, or of ptp the host veth; empty: not known
  std::vector<std::string> host_links = {};  ///< the other links of the node in prevResult
};

std::vector<Ip> of_family(const std::vector<Ip>& addresses, Family family);

/// Every address of prevResult, and its first interface. Without a result the names alone.
Attachment attachment_of(const cni::Request& request, const std::optional<cni::Result>& result);

/// For ADD, CHECK, REPAIR and validation.
/// \throws cni::Error where a policy has no interface of the node.
void require_link(const Conf& conf, const cni::Result& result);

extern const cni::Manual kManual;

}  // namespace firewall
