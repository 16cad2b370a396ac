#pragma once

#include <string>
#include <vector>

#include "netlink/types/ip.h"

namespace tool {

/// The Node object of Kubernetes (v1), as far as pod networks need it.
struct NodeObject {
  std::string name = {};
  std::vector<netlink::Cidr> pod_cidrs = {};  ///< spec.podCIDRs; as they are, also with host bits
  std::vector<netlink::Ip> addresses = {};    ///< of type InternalIP
};

/// The file, complete; "-" is stdin. \throws cni::Error if it does not exist, netlink::Error.
std::string input_from(const std::string& path);

/// Those in the output of `kubectl get nodes -o json`, or the one of `kubectl get node NAME -o
/// json`. \param source for errors. \throws cni::Error.
std::vector<NodeObject> node_objects(const std::string& text, const std::string& source);

/// The only one there. \throws cni::Error.
NodeObject node_object(const std::string& text, const std::string& source);

/// "stdin", or the path.
std::string source_of(const std::string& path);

}  // namespace tool
