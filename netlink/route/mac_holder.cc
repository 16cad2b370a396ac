#include "netlink/route/mac_holder.h"

#include <vector>

#include "netlink/route/socket.h"

namespace netlink {

namespace {

// The parent, or what stands on it beside the link itself.
bool competes(const Link& one, const MacUse& wanted) {
  return one.parent_index == wanted.parent && one.parent_nsid == wanted.parent_nsid &&
         (wanted.link == 0 || one.index != wanted.link);
}

// Searches the namespace of the parent, whose links do not name it.
std::string holder_beside(const std::vector<Link>& links, const MacUse& wanted) {
  std::string parent;
  const MacUse here{.mac = wanted.mac, .parent = wanted.parent};
  for (const Link& one : links) {
    const bool is_parent = one.index == wanted.parent;
    if (is_parent) parent = one.name;
    const bool is_itself = !wanted.parent_nsid && one.index == wanted.link;
    if (one.mac != wanted.mac || is_itself) continue;
    if (is_parent || competes(one, here)) return cat(": link '", one.name, "' has it");
  }
  if (parent.empty()) return {};
  return cat(": the interface of another pod on '", parent, "' has it");
}

}  // namespace

std::string holder_of(const NetNs& where, const MacUse& wanted) try {
  if (wanted.parent == 0) return {};
  RouteSocket socket(where);
  const std::vector<Link> links = socket.links();
  if (!wanted.parent_nsid) return holder_beside(links, wanted);
  for (const Link& one : links) {
    if (one.mac == wanted.mac && competes(one, wanted)) {
      return cat(": link '", one.name, "' of the same namespace has it");
    }
  }
  if (socket.nsid(NetNs::current()) != wanted.parent_nsid) return {};
  return holder_beside(RouteSocket().links(), wanted);
} catch (const Error&) {
  return {};
}

}  // namespace netlink
