#include "cnitool/doctor/node.h"

#include "cnitool/block_pools.h"
#include "cnitool/doctor/agents.h"
#include "cnitool/doctor/leftovers.h"
#include "cnitool/doctor/networks.h"
#include "cnitool/doctor/peers.h"
#include "cnitool/doctor/places.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/leases.h"
#include "cnitool/node_runtimes.h"
#include "netlink/nf/conntrack.h"

namespace tool::doctor {

Node::Node() = default;
Node::Node(Node&&) noexcept = default;
Node& Node::operator=(Node&&) noexcept = default;
Node::~Node() = default;

const cni::NetworkList* Node::network(const std::string& name) const {
  return find_by(networks.lists, &cni::NetworkList::name, name);
}

const PluginFile* Node::program(const std::string& type) const {
  return find_by(programs, &PluginFile::type, type);
}

const netlink::Link* Node::link(const std::string& name) const {
  const auto other = other_names.find(name);
  return other == other_names.end() ? find_by(links, &netlink::Link::name, name)
                                    : link(other->second);
}

const netlink::Link* Node::link(int index) const {
  return find_by(links, &netlink::Link::index, index);
}

}  // namespace tool::doctor
