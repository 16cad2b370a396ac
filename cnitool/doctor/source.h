#pragma once

namespace tool::doctor {

/// A part of a Node. Node::unseen has those that were unreadable.
enum class Source {
  kNetworks,
  kStatus,
  kCache,
  kPods,
  kRoutes,
  kFirewall,
  kPools,
  kLeases,
  kAgents,
  kLeftovers
};

}  // namespace tool::doctor
