#pragma once

#include <string>

#include "cnitool/graph_model.h"
#include "cnitool/output.h"

namespace tool {

/// A tree of lines for a terminal; output says whether in colours.
std::string graph_text(const Graph& graph, const Output& output);

/// For graphviz.
std::string graph_dot(const Graph& graph);

/// A picture: no script, no font or file of elsewhere, dark where the reader's screen is.
std::string graph_svg(const Graph& graph);

/// "10.1.2.2/24 fd00::2/64"
std::string spaced(const std::vector<std::string>& texts);

/// The properties of a pod beside its name, a line each: interface, namespace, addresses,
/// hostPorts, limits. The lines of hostPorts are of at most so many characters.
std::vector<std::string> lines_of(const GraphPod& pod, std::size_t width);

/// Texts side by side, in lines of at most so many characters (a longer text has its own).
std::vector<std::string> wrapped(const std::string& heading, const std::vector<std::string>& texts,
                                 std::size_t width);

}  // namespace tool
