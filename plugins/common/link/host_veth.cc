#include "plugins/common/link/host_veth.h"

#include <algorithm>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "plugins/common/link/owned_links.h"

namespace plugins {

namespace {

using netlink::Link;
using netlink::NetNs;
using netlink::RouteSocket;

bool may_be_of(const Link& link, const cni::OwnerTag& owner) {
  return link.alias.starts_with(owner.prefix()) || !cni::OwnerTag::is_tag(link.alias);
}

bool is_veth_into(const Link& link, std::optional<int> nsid) {
  return link.kind == "veth" && link.peer_nsid && link.peer_nsid == nsid;
}

// The other end of inside, if it is on the host.
std::optional<Link> peer_on_host(RouteSocket& host, const NetNs& pod_ns, const Link& inside) {
  if (inside.kind != "veth") return std::nullopt;
  auto link = host.find(inside.peer_index);  // what the pod made it: proof is what the host says
  if (!link || link->peer_index != inside.index || !is_veth_into(*link, host.nsid(pod_ns))) {
    return std::nullopt;
  }
  return link;
}

// A link without an alias is the reference's. Only prevResult tells to which attachment of the
// namespace it belongs, or whether to one of a later namespace at the same path.
bool is_removable(const Link& link, const cni::Request& request,
                  const std::optional<cni::Result>& result) {
  return link.alias.starts_with(owner_of(request).prefix()) || !result ||
         names_host_link(*result, link.name);
}

std::optional<Link> by_interface(RouteSocket& host, const cni::Request& request,
                                 const NetNs& pod_ns) {
  RouteSocket pod(pod_ns);
  const auto inside = pod.find(request.ifname);
  return inside ? host_veth_of(host, request, pod_ns, *inside) : std::nullopt;
}

// The pod may have renamed or removed CNI_IFNAME and made another one.
std::optional<Link> by_result(RouteSocket& host, const cni::Request& request, const NetNs& pod_ns,
                              const cni::Result& result) {
  for (const cni::Interface& one : result.interfaces) {
    if (!one.sandbox.empty()) continue;
    auto link = host.find(one.name);
    if (!link || !may_be_of(*link, owner_of(request))) continue;
    if (is_veth_into(*link, host.nsid(pod_ns))) return link;
  }
  return std::nullopt;
}

}  // namespace

std::string host_veth_name(const std::string& owner, unsigned attempt) {
  const std::string text = attempt == 0 ? owner : cni::cat(owner, ":", attempt);
  return cni::cat("veth", cni::sha512_hex(text, 8));
}

std::string host_veth_name(const cni::Request& request, unsigned attempt) {
  return host_veth_name(owner_of(request).prefix(), attempt);
}

static std::vector<Link> links_named_for(RouteSocket& host, const std::string& owner) {
  std::vector<Link> out;
  for (unsigned attempt = 0; attempt < kHostVethNames; ++attempt) {
    auto link = host.find(host_veth_name(owner, attempt));
    if (!link) break;
    if (link->kind == "veth") out.push_back(*std::move(link));
  }
  return out;
}

std::vector<Link> host_veths_of(RouteSocket& host, const std::string& owner) {
  auto out = links_named_for(host, owner);
  std::erase_if(out, [&](const Link& link) { return !link.alias.starts_with(owner); });
  return out;
}

std::vector<Link> host_veths_of(RouteSocket& host, const cni::Request& request) {
  const std::string owner = owner_of(request).prefix();
  auto out = links_named_for(host, owner);
  // The alias is missing where ADD ended between making the pair and opening the port.
  std::erase_if(
      out, [&](const Link& link) { return !link.alias.empty() && !link.alias.starts_with(owner); });
  return out;
}

std::optional<Link> host_veth_of(RouteSocket& host, const cni::Request& request,
                                 const NetNs& pod_ns, const Link& inside) {
  auto link = peer_on_host(host, pod_ns, inside);
  if (link && !may_be_of(*link, owner_of(request))) link.reset();
  return link;
}

std::optional<Link> chained_host_veth(Namespaces& sides, const cni::Result& result,
                                      const Link& inside) {
  auto link = host_veth_of(sides, inside);
  if (!link || names_host_link(result, link->name)) return link;
  for (const cni::Interface& one : result.interfaces) {
    if (!one.sandbox.empty()) continue;
    const auto other = sides.host().find(one.name);
    if (other && is_veth_into(*other, link->peer_nsid)) return std::nullopt;
  }
  return link;
}

bool is_of_another(RouteSocket& host, const cni::Request& request, const NetNs& pod_ns,
                   const Link& inside) {
  const auto link = peer_on_host(host, pod_ns, inside);
  return link && !may_be_of(*link, owner_of(request));
}

bool names_host_link(const cni::Result& result, const std::string& link) {
  return result.interfaces.empty() || std::ranges::any_of(result.interfaces, [&](const auto& one) {
           return one.name == link && one.sandbox.empty();
         });
}

std::vector<Link> removable_host_veths(RouteSocket& host, const cni::Request& request) {
  auto out = host_veths_of(host, request);
  if (!out.empty()) return out;
  const auto pod_ns = NetNs::find(request.netns);
  if (!pod_ns) return out;
  const auto result = readable_prev_result(request);
  auto link = by_interface(host, request, *pod_ns);
  if (link && !is_removable(*link, request, result)) link.reset();
  if (!link && result) link = by_result(host, request, *pod_ns, *result);
  if (link) out.push_back(*std::move(link));
  return out;
}

std::optional<cni::Result> readable_prev_result(const cni::Request& request) {
  try {
    return request.prev_result();
  } catch (const cni::Error& e) {
    cni::note(e.what());
    return std::nullopt;
  }
}

}  // namespace plugins
