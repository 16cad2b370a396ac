#include "plugins/common/link/ipam_keys.h"

namespace plugins {

std::optional<cni::Dns> dns_override(const cni::Reader& place) {
  cni::Dns dns = cni::dns_from(place);
  if (place["nameservers"].present() || place["search"].present() || place["options"].present() ||
      !dns.domain.empty()) {
    return dns;
  }
  return std::nullopt;
}

cni::Dns merged(cni::Dns dns, const cni::Reader& place) {
  cni::Dns own = cni::dns_from(place);
  if (!place.present()) return dns;
  if (place["nameservers"].present()) dns.nameservers = std::move(own.nameservers);
  if (place["domain"].present()) dns.domain = std::move(own.domain);
  if (place["search"].present()) dns.search = std::move(own.search);
  if (place["options"].present()) dns.options = std::move(own.options);
  return dns;
}

}  // namespace plugins
