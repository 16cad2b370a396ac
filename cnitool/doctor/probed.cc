#include "cnitool/doctor/probed.h"

#include <cerrno>

#include "cnitool/doctor/checks.h"
#include "libcni/common/error.h"
#include "netlink/types/error.h"

// What probes have found, if they were asked for.
namespace tool::doctor {

using cni::cat;

probe::Outcome probe_pods(const Settings& settings, const probe::Options& options) try {
  return probe::probe(settings, options);
} catch (const netlink::Error& e) {
  probe::Outcome out;
  out.findings.push_back(
      {.level = Level::kError,
       .what = cat("pods were not probed: ", e.what()),
       .why = "whether their packets arrive is not known",
       .remedy = e.error() == EPERM ? "run cnitool as root of the node" : "cnitool probe"});
  return out;
}

Findings check_probes(const Node& node) {
  if (node.probed == nullptr) return {};
  Findings out = node.probed->findings;
  for (const std::string& one : node.probed->limits) {
    out.push_back({Level::kNote, cat("probes: ", one), "", ""});
  }
  if (!node.probed->is_whole) {
    out.push_back({Level::kUnknown,
                   "not all probes were sent: they were stopped, or the time was up", "",
                   "cnitool probe --time-limit SECONDS --rate PROBES"});
  }
  return out;
}

}  // namespace tool::doctor
