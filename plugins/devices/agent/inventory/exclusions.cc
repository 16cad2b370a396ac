#include "plugins/devices/agent/inventory/exclusions.h"

#include <linux/rtnetlink.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "libcni/common/error.h"

namespace devices {

namespace {

using cni::cat;
using netlink::Link;

constexpr std::string_view kSwitches[] = {"bridge", "bond", "team", "vrf", "openvswitch"};

/// The links of a node, and which of them is stacked on which.
class Stack {
 public:
  explicit Stack(const NodeLinks& node) : node_(node) {}

  std::string name_of(int index) const {
    for (const Link& link : node_.links) {
      if (link.index == index) return link.name;
    }
    return cat("#", index);
  }

  /// A port is below its bridge or bond, a parent below its VLANs and macvlans.
  std::set<int> below(int index) const {
    return reach(index, [](const Link& upper, const Link& lower) { return is_on(upper, lower); });
  }
  std::set<int> above(int index) const {
    return reach(index, [](const Link& lower, const Link& upper) { return is_on(upper, lower); });
  }
  static bool is_on(const Link& upper, const Link& lower) {
    if (upper.index == lower.index) return false;
    return lower.master == upper.index || (upper.parent_index == lower.index && !upper.parent_nsid);
  }

 private:
  template <class Step>
  std::set<int> reach(int index, Step leads_to) const {
    std::set<int> out;
    std::vector<int> open = {index};
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      for (const Link& from : node_.links) {
        if (from.index != at) continue;
        for (const Link& to : node_.links) {
          if (leads_to(from, to) && out.insert(to.index).second) open.push_back(to.index);
        }
      }
    }
    out.erase(index);
    return out;
  }

  const NodeLinks& node_;
};

bool is_global(const netlink::LinkAddress& address) {
  return address.scope == RT_SCOPE_UNIVERSE || address.scope == RT_SCOPE_SITE;
}

std::string own_reason(const NodeLinks& node, const Stack& stack, const Link& link) {
  if (std::find(std::begin(kSwitches), std::end(kSwitches), link.kind) != std::end(kSwitches)) {
    return cat("kind ", link.kind);
  }
  if (link.master != 0) return cat("port of '", stack.name_of(link.master), "'");
  for (const Link& other : node.links) {
    if (Stack::is_on(other, link)) return cat("'", other.name, "' stands on it");
  }
  for (const netlink::LinkAddress& address : node.addresses) {
    if (address.link == link.index && is_global(address)) {
      return cat("has the address ", address.cidr.str());
    }
  }
  return {};
}

}  // namespace

std::map<int, std::string> exclusions(const NodeLinks& node) {
  const Stack stack(node);
  std::map<int, std::string> out;
  for (const int index : node.default_routes) {
    out.emplace(index, "default route of the node");
    const std::string of = cat("'", stack.name_of(index), "', which has the default route");
    for (const int one : stack.below(index)) out.emplace(one, cat("below ", of));
    for (const int one : stack.above(index)) out.emplace(one, cat("above ", of));
  }
  for (const Link& link : node.links) {
    if (link.loopback) {
      out[link.index] = "loopback";
    } else if (!out.contains(link.index)) {
      if (std::string reason = own_reason(node, stack, link); !reason.empty()) {
        out.emplace(link.index, std::move(reason));
      }
    }
  }
  return out;
}

}  // namespace devices
