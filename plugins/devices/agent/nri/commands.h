#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/types/fd.h"
#include "plugins/devices/agent/nri/connection.h"

namespace devices::nri {

/// How a command meets the runtime: as an external plugin by a socket, or as a pre-installed one,
/// by the connection of the runtime that started it.
struct Meeting {
  Peer peer = {};
  Identity identity = {};
};

struct LogOptions {
  bool containers = false;             ///< their events, too
  std::string cache = "/var/lib/cni";  ///< of the runtime's CNI: results/ in it
  std::string file = {};               ///< lines are appended to it; empty: stdout
};
/// `patchbay-agent nri log`: the life of pods as lines of JSON, until SIGTERM or SIGINT.
/// \throws cni::Error, netlink::Error.
void log_pods(Meeting meeting, LogOptions options);

/// `patchbay-agent nri inject`: adds to containers what annotations of their pods ask for, in these
/// namespaces. Until SIGTERM or SIGINT. \throws cni::Error, netlink::Error.
void inject(Meeting meeting, const std::vector<std::string>& allowed);

/// Runs the command of a pre-installed plugin: argv[0] is NN-patchbay-log or NN-patchbay-inject,
/// and the environment has NRI_PLUGIN_SOCKET. False: it is none. Its config, which the runtime
/// sends, is JSON or YAML: {"file", "containers"} or {"allow"}. \throws as the commands.
bool run_preinstalled(const char* argv0);

}  // namespace devices::nri
