#pragma once

#include "libcni/config/conf.h"
#include "libcni/config/keys.h"
#include "libcni/config/result.h"

/// The keys that the spec defines for all plugins.
namespace cni {

/// "dns".
inline constexpr auto kDnsKeys = keys(
    key<&Dns::nameservers>({.name = "nameservers", .meaning = "addresses of name servers"}),
    key<&Dns::domain>({.name = "domain", .meaning = "the local domain"}),
    key<&Dns::search>({.name = "search", .meaning = "domains in which short names are looked for"}),
    key<&Dns::options>({.name = "options", .meaning = "options for the resolver"}));

/// An entry of "routes".
inline constexpr auto kRouteKeys =
    keys(key<&Route::dst>({.name = "dst", .meaning = "the destination", .required = true}),
         key<&Route::gateway>({.name = "gw", .meaning = "the next hop"}),
         key<&Route::mtu>({.name = "mtu", .meaning = "MTU in bytes"}),
         key<&Route::advmss>({.name = "advmss", .meaning = "the MSS to advertise, in bytes"}),
         key<&Route::priority>({.name = "priority", .meaning = "the metric; the lowest wins"}),
         key<&Route::table>({.name = "table", .meaning = "number of the routing table"}),
         key<&Route::scope>(
             {.name = "scope", .meaning = "0 is global, 253 the link, 254 the node", .most = 255}));

/// An entry of "cni.dev/valid-attachments".
inline constexpr auto kAttachmentKeys =
    keys(key<&Attachment::container_id>(
             {.name = "containerID", .meaning = "the container", .required = true}),
         key<&Attachment::ifname>(
             {.name = "ifname", .meaning = "the interface in the container", .required = true}));

/// All keys of a plugin's config: its own, and those that every config has and it does not list.
/// The keys of runtimeConfig are its capabilities.
class ConfigKeys {
 public:
  explicit ConfigKeys(const Manual& manual);
  ConfigKeys(const ConfigKeys&) = delete;
  ConfigKeys& operator=(const ConfigKeys&) = delete;

  /// The config as an object. Borrows the lists.
  Key root() const;

 private:
  std::vector<Key> keys_, capabilities_;
  bool open_;
};

}  // namespace cni
