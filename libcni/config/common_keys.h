#pragma once

#include "libcni/common/attachment.h"
#include "libcni/config/conf.h"
#include "libcni/config/keys.h"
#include "libcni/config/result.h"

/// The keys that the spec defines for all plugins.
namespace cni {

/// "dns".
inline constexpr auto kDnsKeys = keys(
    key<&Dns::nameservers>({.name = "nameservers", .description = "addresses of name servers"}),
    key<&Dns::domain>({.name = "domain", .description = "local domain"}),
    key<&Dns::search>({.name = "search", .description = "search domains for short names"}),
    key<&Dns::options>(
        {.name = "options", .description = "resolver options, as in resolv.conf(5)"}));

/// An entry of "routes".
inline constexpr auto kRouteKeys =
    keys(key<&Route::dst>({.name = "dst", .description = "destination network", .required = true}),
         key<&Route::gateway>({.name = "gw", .description = "address of the next hop"}),
         key<&Route::mtu>({.name = "mtu", .description = "MTU in bytes"}),
         key<&Route::advmss>({.name = "advmss", .description = "MSS to advertise, in bytes"}),
         key<&Route::priority>({.name = "priority", .description = "metric; the lowest wins"}),
         key<&Route::table>({.name = "table", .description = "routing table number"}),
         key<&Route::scope>({.name = "scope",
                             .description = "route scope: 0 global, 253 link, 254 host",
                             .maximum = 255}));

/// `ipam.routes` of an IPAM plugin that returns them as they are.
template <auto First, auto... Rest>
constexpr auto ipam_routes_key() {
  Key key{.name = "routes",
          .description =
              "returned in the result: `dst`, `gw`, `mtu`, `advmss`, `priority`, "
              "`table`, `scope`",
          .type = Type::kObject,
          .lists = 1,
          .keys = kRouteKeys,
          .folded = true};
  key.read = [](const Reader& place, const Key&, void* conf) {
    field_of<First, Rest...>(conf) = routes_from(place);
  };
  return KeyOf<ConfOf<First>>{key};
}
/// For an IPAM plugin: results before 0.3.0 have one address per family.
/// \throws Error(kInvalidConfig).
void require_version_of(Version version, std::ptrdiff_t v4_count, std::ptrdiff_t v6_count);

/// An entry of "cni.dev/valid-attachments".
inline constexpr auto kAttachmentKeys = keys(
    key<&Attachment::container_id>(
        {.name = "containerID", .description = "container ID", .required = true}),
    key<&Attachment::ifname>(
        {.name = "ifname", .description = "name of the container interface", .required = true}));

/// Those that every config may have, unless the plugin has its own of that name.
KeyList common_keys();

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
