#include "plugins/bandwidth/ifb.h"

#include <algorithm>
#include <cerrno>

#include "libcni/common/error.h"
#include "netlink/tc/filter.h"
#include "netlink/tc/list.h"
#include "netlink/tc/qdisc.h"
#include "plugins/common/link/owned_links.h"
#include "plugins/names/links.h"

namespace bandwidth {

namespace {

using cni::cat;
using netlink::Link;
using netlink::RouteSocket;
using netlink::tc::FilterState;
namespace tc = netlink::tc;

struct Place {
  std::string free_name;  ///< empty where there is none
  std::optional<Link> link;
};

Place look(RouteSocket& host, const cni::Request& request) {
  Place out;
  for (const std::string& name :
       names::ifb_names(request.network, request.container_id, request.ifname)) {
    auto link = host.find(name);
    if (!link) {
      if (out.free_name.empty()) out.free_name = name;
    } else if (link->kind == "ifb" &&
               (link->alias.empty() ||
                link->alias.starts_with(plugins::owner_of(request).prefix()))) {
      out.link = std::move(link);
      return out;
    }
  }
  return out;
}

const tc::Qdisc kIngressQdisc{
    .parent = tc::kHook, .handle = tc::kHookHandle, .kind = tc::Ingress{}};

// A filter to a removed device has the index 0.
bool is_ours(const FilterState& filter, const Link& ifb) {
  return filter.redirects_all_to(ifb.index) || filter.redirects_all_to(0);
}

// Existing filters are of an earlier ADD, ours or the reference plugin's, or of another program.
void clear_old_redirect(RouteSocket& host, const Link& outside, const Link& ifb) {
  const auto hook = tc::qdisc(host, outside, tc::kHook);
  const auto filters = tc::filters(host, outside, tc::kHookHandle);
  const bool only_ours =
      std::ranges::all_of(filters, [&](const FilterState& one) { return is_ours(one, ifb); });
  if (!only_ours || (hook && hook->as<tc::Ingress>() == nullptr)) {
    throw cni::Error(cni::Code::kInternal,
                     cat("redirect traffic of '", outside.name,
                         "': another program's filter or qdisc is attached at 'ffff:'"),
                     "set \"egressMode\": \"pod\", which needs no filter on the node");
  }
  if (!filters.empty()) host.send(tc::remove(outside, tc::FilterGroup{.parent = tc::kHookHandle}));
}

}  // namespace

std::optional<Link> find_ifb(RouteSocket& host, const cni::Request& request) {
  return look(host, request).link;
}

Link ensure_ifb(RouteSocket& host, const cni::Request& request, unsigned mtu) {
  const Place place = look(host, request);
  netlink::LinkChange change{.up = true, .alias = plugins::owner_of(request).text};
  if (place.link) {
    change.mtu = mtu;
    host.send(netlink::set_link(*place.link, change));
    return *place.link;
  }
  if (place.free_name.empty()) {
    throw cni::Error(
        cni::Code::kInternal,
        cat("create ifb '",
            names::ifb_names(request.network, request.container_id, request.ifname).front(),
            "': another link has this name"));
  }
  // Alone: the kernel goes on after a failure, and what follows would be done to another's link.
  host.send(netlink::add(
      netlink::NewLink{.kind = "ifb", .name = place.free_name, .mtu = mtu, .tx_queue_length = 0}));
  const Link made = host.get(place.free_name);
  host.send({netlink::without_link_local(made), netlink::set_link(made, change)});
  return made;
}

void redirect(RouteSocket& host, const Link& outside, const Link& ifb) {
  try {
    host.send(tc::add(outside, kIngressQdisc));
  } catch (const netlink::Error& e) {
    if (e.error() != EEXIST) throw;
    if (!redirect_missing(host, outside, ifb)) return;
    clear_old_redirect(host, outside, ifb);
  }
  host.send(tc::add(
      outside, tc::Redirect{.parent = tc::kHookHandle, .to_link = ifb.index, .handle = tc::kNone}));
}

void remove_redirect(RouteSocket& host, const Link& outside, const Link& ifb) {
  const auto filters = tc::filters(host, outside, tc::kHookHandle);
  const auto ours =
      std::ranges::find_if(filters, [&](const FilterState& one) { return is_ours(one, ifb); });
  if (static_cast<std::size_t>(std::ranges::count_if(
          filters, [&](const FilterState& one) { return is_ours(one, ifb); })) == filters.size()) {
    host.send(tc::remove(outside, kIngressQdisc));
  } else if (ours != filters.end()) {
    host.send(tc::remove(outside, tc::FilterGroup{tc::kHookHandle, ours->priority}));
  }
}

std::optional<std::string> redirect_missing(RouteSocket& host, const Link& outside,
                                            const Link& ifb) {
  const auto filters = tc::filters(host, outside, tc::kHookHandle);
  if (filters.empty())
    return cat("egress traffic of '", outside.name, "' is not redirected to an ifb device");
  if (filters.front().redirects_all_to(ifb.index)) return std::nullopt;
  return cat("egress traffic of '", outside.name, "' is not redirected to '", ifb.name, "'");
}

}  // namespace bandwidth
