#pragma once

#include <optional>
#include <string>

#include "cnitool/probe/drop.h"

/// The kernel's reasons for drops (include/net/dropreason-core.h) in words.
namespace tool::probe {

/// Where a packet was dropped, and whose it was.
struct DropPlace {
  std::string link = {};    ///< empty: at none
  std::string pod = {};     ///< "shop/web-1 (eth0)"; empty: on the node
  std::string netns = {};   ///< the path of the pod's network namespace
  std::string source = {};  ///< the packet's address, or "that"
};

struct DropWords {
  std::string what = {};
  std::string remedy = {};  ///< a command that heals, or that shows what a person has to know
  /// Whether the reason says it all. Else another finding about the same packets explains it.
  bool is_certain = true;
};

/// What a drop says; one that is not known by itself is called as the kernel does.
DropWords words_of(const Drop& drop, const DropPlace& place);

/// "link 'eth0' of the pod shop/web-1 (eth0)", "link 'cni0'"; empty: at none, on the node.
std::string str(const DropPlace& place);
/// The command as it is typed on the node.
std::string command_at(const DropPlace& place, const std::string& command);

/// Whether a bridge dropped it.
bool is_of_bridge(const Drop& drop);
/// Whether it is of tc's filters, of a qdisc, or of XDP.
bool is_of_filter(const Drop& drop);
bool is_of_queue(const Drop& drop);
bool is_of_xdp(const Drop& drop);

}  // namespace tool::probe
