#include "plugins/common/link/namespaces.h"

#include <utility>

#include "libcni/common/error.h"
#include "libcni/plugin/privileges.h"

namespace plugins {

namespace {

constexpr const char* kChained = "the plugin is chained after the one that creates the interface";

using netlink::Capability;

netlink::NetNs with_rights(const cni::Request& request, netlink::NetNs pod_ns) {
  if (request.command == cni::Command::kCheck) {
    cni::require_capabilities(request, {Capability::kSysAdmin});
  } else {
    cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  }
  return pod_ns;
}

}  // namespace

Namespaces::Namespaces(const cni::Request& of, netlink::NetNs pod_namespace)
    : request(of), pod_ns(with_rights(of, std::move(pod_namespace))), pod(pod_ns) {}

netlink::RouteSocket& Namespaces::host() {
  if (!host_) host_.emplace();
  return *host_;
}

cni::Result require_prev_result(const cni::Request& request, const std::string& sentence) {
  if (auto result = request.prev_result()) return *std::move(result);
  throw cni::Error(cni::Code::kInvalidConfig, sentence, cni::cat("prevResult: ", kChained));
}

netlink::Link require_interface(Namespaces& sides, const std::string& sentence) {
  if (auto link = sides.pod.find(sides.request.ifname)) return *std::move(link);
  throw cni::Error(cni::Code::kInternal, sentence, kChained);
}

}  // namespace plugins
