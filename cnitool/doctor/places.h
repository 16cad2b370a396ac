#pragma once

#include <set>
#include <string>
#include <vector>

#include "libcni/common/file_users.h"
#include "libcni/runtime/cache.h"
#include "netlink/route/policy_rule.h"

namespace tool::doctor {

/// A file or directory, and who may write to it.
struct Place {
  std::string path;
  bool is_there = false;
  unsigned mode = 0, uid = 0;
};

struct FileSystem {
  std::string path;  ///< what of ours is on it
  bool in_memory = false, read_only = false;
  double free_bytes = 1, free_files = 1;  ///< parts of the whole
  bool operator==(const FileSystem&) const = default;
};

/// A state file that a later release wrote, which no verb of this one reads.
struct LaterFile {
  std::string path;
  std::vector<cni::AttachmentKey> owners;
  bool is_dead = false;  ///< all of their pods are
};

/// A rule of the node's that keeps the node from using the route to a pod.
struct RuledAway {
  cni::AttachmentKey key;
  netlink::Cidr subnet;  ///< of the pod's network
  netlink::PolicyRule rule;
};

/// A lock that has not been free for kHungSeconds: a call has one for milliseconds.
inline constexpr int kHungSeconds = 3;
struct HeldLock {
  std::string path;
  std::set<std::string> networks = {};  ///< whose calls wait for it
  std::set<std::string> plugins = {};   ///< their types
  bool is_gc = false;                   ///< of an operation on a whole network
  std::vector<cni::FileUser> holders = {};
};

/// A hostPort of a pod on which a process of the node listens.
struct TakenPort {
  std::string network, pod;  ///< pod: name_of()
  std::string port;          ///< "tcp port 8080"
  std::string filter;        ///< of ss(8), which shows the socket
  std::string holder;        ///< "process 812 (nginx)"
};

}  // namespace tool::doctor
