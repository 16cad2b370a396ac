#pragma once

#include <string>

#include "cnitool/doctor/forward.h"
#include "cnitool/doctor/networks.h"
#include "cnitool/doctor/node.h"

/// Commands that open a packet filter to the pods of a network. They insert rules, and remove none;
/// networks that the plugin firewall isolates stay so.
namespace tool::doctor {

/// A chain, and the rule of it that drops; null: its policy does.
struct Closed {
  const ForwardChain& chain;
  const ForwardRule* rule = nullptr;
};

bool is_of_firewalld(const ForwardChain& chain);

/// Opens it to what pods send, and to replies. \param has_plugin the plugin firewall accepts them
/// in that chain: its rules get their turn before.
std::string opening(const Node& node, const BridgeNetwork& network, const Closed& closed,
                    bool has_plugin);

/// Opens it to new connections to hostPorts. \param range the pods' addresses, where no bridge
/// tells them.
std::string port_opening(const BridgeNetwork& network, const Closed& closed,
                         const std::optional<netlink::Cidr>& range);

/// The link by which the node reaches the network's pods; "veth*": of ptp, each its own.
std::string link_of(const BridgeNetwork& network);

}  // namespace tool::doctor
