#pragma once

#include <string>
#include <vector>

#include "cnitool/graph_model.h"

/// What a drawing of a Graph shows, whatever its format: boxes with texts, and lines between them.
namespace tool {

/// A bridge with its ports, or a network without a bridge with its interfaces.
struct Segment {
  std::string id;                         ///< "link:cni0", "network:lan"
  std::string title;                      ///< "bridge cni0", "network lan"
  std::string fault = {};                 ///< "does not exist"; empty: none
  std::vector<std::string> lines = {};    ///< below the title
  std::vector<std::string> uplinks = {};  ///< the node routes to them
  std::string broken_out = {};            ///< what takes packets on these ways; empty: unknown
  bool masquerades = false;
  std::vector<std::string> masters = {};  ///< links of the node that its interfaces are on
  std::vector<const GraphPod*> interfaces = {};
  std::vector<ForeignPort> foreign = {};
  /// Whether the kernel shows that the interface is connected.
  bool reaches(const GraphPod& one) const {
    return id.starts_with("link:") ? !one.bridge.empty() : one.is_alive();
  }
};

/// An interface of a pod, and the index of its segment.
struct BoxedInterface {
  const GraphPod* of;
  std::size_t segment;
};

/// A pod with all of its interfaces.
struct PodBox {
  std::string id;     ///< "pod:CONTAINER"
  std::string label;  ///< GraphPod::label()
  std::vector<BoxedInterface> interfaces = {};
  bool is_alive() const;  ///< one of them is
};

struct View {
  std::vector<Segment> segments;
  std::vector<PodBox> pods;
  std::vector<std::string> masters;  ///< those that are no uplinks
};

/// Points into the graph.
View view_of(const Graph& graph);

/// "link:eth0", the ID of an uplink or a master.
std::string link_id(const std::string& name);

/// The properties of an interface, a line each: name and MAC address, host veth, addresses,
/// hostPorts, limits. The lines of hostPorts are of at most so many characters.
std::vector<std::string> lines_of(const GraphPod& pod, std::size_t width);

/// "broken: " and the cause, in lines of at most so many characters; none for an empty cause.
std::vector<std::string> broken_lines(const std::string& cause, std::size_t width);

/// "10.1.2.2/24 fd00::2/64"
std::string spaced(const std::vector<std::string>& texts);

/// Texts side by side, in lines of at most so many characters (a longer text has its own).
std::vector<std::string> wrapped(const std::string& heading, const std::vector<std::string>& texts,
                                 std::size_t width);

}  // namespace tool
