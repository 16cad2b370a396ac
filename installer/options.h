#pragma once

#include <set>
#include <string>
#include <vector>

namespace installer {

/// The command line of `patchbay install`, `uninstall` and `verify`.
struct Options {
  std::string dir;
  std::vector<std::string> names;  ///< of the plugins, and "patchbay": what the folder is to have
  std::string conf;                ///< a network's file, to be installed last; empty: none
  std::string conf_dir = "/etc/cni/net.d";
  bool may_downgrade = false;
  bool watches = false;
};

/// Returned as exit status.
enum class Status { kDone = 0, kFailed = 1, kUsage = 2, kRefused = 3 };

/// Puts this executable into the folder under each of the names, then the network's file. Prints
/// what it changed. \throws netlink::Error, cni::Error with path and reason.
Status install(const Options& options);
/// Gives the names back what they were before; the network's file is removed first.
Status uninstall(const Options& options);
/// Prints which names are not this executable, and who they are.
Status verify(const Options& options);
/// install(), and again whenever another program changes one of the names, until SIGTERM or SIGINT.
Status watch(const Options& options);

}  // namespace installer
