#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "netlink/route/link.h"
#include "netlink/route/socket.h"

/// Settings that root in a link's namespace can change and that the link keeps in the next
/// namespace, beside those of LinkChange.
namespace netlink {

struct LinkSettings {
  /// Numbers of XDP programs by how they are attached (XDP_FLAGS_*); 0 is none.
  struct Xdp {
    std::uint32_t driver = 0, generic = 0, hardware = 0;
    bool operator==(const Xdp&) const = default;
  };

  std::uint32_t flags = 0;  ///< IFF_*, of those in kSettable
  std::uint32_t group = 0;
  std::uint32_t tx_queue_length = 0;  ///< packets
  /// Bytes, but for the segments; 0: this kernel has no such limit.
  std::uint32_t gso_max_size = 0, gso_max_segments = 0, gro_max_size = 0;
  std::uint32_t gso_ipv4_max_size = 0, gro_ipv4_max_size = 0;
  std::uint8_t mode = 0;    ///< IF_LINK_MODE_*: "default" or "dormant" in ip-link(8)
  bool proto_down = false;  ///< IFLA_PROTO_DOWN
  std::vector<std::string> altnames = {};
  Xdp xdp = {};
  bool operator==(const LinkSettings&) const = default;

  /// IFF_NOARP, IFF_MULTICAST, IFF_ALLMULTI and those of the media.
  static const std::uint32_t kSettable;
};

/// \throws Error, with ENODEV where the link does not exist.
LinkSettings settings_of(RouteSocket& where, const Link& link);
/// Reads an RTM_NEWLINK.
LinkSettings decode_settings(const Reply& reply);

/// One request for each difference, so that a refused one leaves the others. Alternative names and
/// XDP programs are not among them.
std::vector<RouteRequest> change_settings(const Link& link, const LinkSettings& from,
                                          const LinkSettings& to);

/// Names from ip-link(8), "property add altname". EEXIST where a link has the name.
RouteRequest add_altname(const Link& link, const std::string& name);
RouteRequest remove_altname(const Link& link, const std::string& name);

/// Detaches the XDP programs of a link that are not in `kept`. EBUSY for one that a BPF link
/// attached.
std::vector<RouteRequest> detach_xdp(const Link& link, const LinkSettings::Xdp& attached,
                                     const std::vector<std::uint32_t>& kept);

}  // namespace netlink
