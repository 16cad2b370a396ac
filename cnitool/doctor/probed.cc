#include "cnitool/doctor/checks.h"
#include "cnitool/probe/probe.h"

// What probes have found, if they were asked for.
namespace tool::doctor {

Findings check_probes(const Node& node) {
  if (node.probed == nullptr) return {};
  Findings out = node.probed->findings;
  if (!node.probed->is_whole) {
    out.push_back({Level::kUnknown,
                   "not all probes were sent: they were stopped, or the time was up", "",
                   "cnitool probe --time-limit SECONDS --rate PROBES"});
  }
  return out;
}

}  // namespace tool::doctor
