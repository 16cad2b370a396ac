#pragma once

#include <string>

#include "cnitool/output.h"
#include "cnitool/probe/probe.h"
#include "cnitool/settings.h"

namespace tool {

/// The format of the drawing, and its file.
struct GraphOptions {
  std::string format = "text";  ///< text, dot (for graphviz) or svg
  std::string file;             ///< empty: stdout
  bool probe = false;           ///< probes what is drawn, and marks the ways that are broken
  probe::Options probing = {};
};

/// Draws pods, bridges, hostPorts, limits and uplinks: what the cache knows and the kernel has.
/// With --json all of it as an object. \param which the pods that are drawn, with what they are on.
/// \throws cni::Error, netlink::Error where the file cannot be written or the kernel not be read.
void graph(const GraphOptions& options, const Selection& which, const Settings& settings,
           const Output& output);

}  // namespace tool
