#include "cnitool/graph_broken.h"

#include <map>

namespace tool {

namespace {

/// Of an attachment; empty: it is passed.
struct Ways {
  std::string own, out;
};

void mark(const std::map<cni::AttachmentKey, Ways>& broken, std::vector<GraphPod>& pods) {
  for (GraphPod& pod : pods) {
    const auto found = broken.find({pod.network, pod.container_id, pod.ifname});
    if (found == broken.end()) continue;
    pod.broken = found->second.own;
    pod.broken_out = found->second.out;
  }
}

}  // namespace

void mark_broken(const probe::Outcome& outcome, Graph& graph) {
  std::map<cni::AttachmentKey, Ways> broken;
  for (const probe::Asked& one : outcome.questions) {
    if (one.level != doctor::Level::kError) continue;
    Ways& ways = broken[one.pod];
    std::string& way = one.is_beyond ? ways.out : ways.own;
    if (way.empty()) way = one.cause;
  }
  for (GraphBridge& bridge : graph.bridges) mark(broken, bridge.pods);
  mark(broken, graph.others);
}

}  // namespace tool
