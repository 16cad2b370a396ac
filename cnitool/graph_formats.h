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

}  // namespace tool
