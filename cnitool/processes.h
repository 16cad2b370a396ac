#pragma once

#include <ctime>
#include <functional>
#include <string>
#include <vector>

/// The processes that run on this node.
namespace tool {

/// A process in the network namespace of this one.
struct Process {
  std::string path;                ///< "/proc/812"
  std::string name;                ///< its comm: at most 15 characters
  std::string executable;          ///< empty: unknown, as without root
  std::vector<std::string> words;  ///< its command line
  std::time_t started = 0;
  bool is_of_node = false;  ///< in the PID namespace of this one, and root's: no pod's

  /// The value of "--name VALUE" or "--name=VALUE"; empty: it is not given.
  std::string option(const std::string& wanted) const;
};

/// Those of which wanted takes comm and executable.
std::vector<Process> processes(
    const std::function<bool(const std::string& name, const std::string& executable)>& wanted);

}  // namespace tool
