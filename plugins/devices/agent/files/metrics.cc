#include "plugins/devices/agent/files/metrics.h"

#include <cstdint>
#include <functional>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "plugins/devices/agent/files/readable.h"

namespace devices {

namespace {

using cni::cat;

/// A metric; resources have no characters that a label's value would have to escape.
struct Metric {
  const char* name;
  const char* type;
  const char* help;
  std::uint64_t (*value)(const Count&);
};
constexpr Metric kMetrics[] = {
    {"patchbay_agent_devices", "gauge", "Devices offered to the kubelet.",
     [](const Count& of) -> std::uint64_t { return of.devices; }},
    {"patchbay_agent_devices_healthy", "gauge", "Of these, healthy ones.",
     [](const Count& of) -> std::uint64_t { return of.healthy; }},
    {"patchbay_agent_list_read", "gauge", "Whether the kubelet reads the list of devices: 1 or 0.",
     [](const Count& of) -> std::uint64_t { return of.is_read ? 1 : 0; }},
    {"patchbay_agent_devices_allocated", "gauge", "Of these, devices of pods.",
     [](const Count& of) -> std::uint64_t { return of.allocated; }},
    {"patchbay_agent_allocations_total", "counter", "Devices that were allocated.",
     [](const Count& of) -> std::uint64_t { return of.allocations; }},
    {"patchbay_agent_failures_total", "counter", "Allocate and ADD calls that failed.",
     [](const Count& of) -> std::uint64_t { return of.failures; }},
};

}  // namespace

std::string metrics_text(const std::vector<Count>& counts) {
  std::string out;
  for (const Metric& metric : kMetrics) {
    out += cat("# HELP ", metric.name, " ", metric.help, "\n# TYPE ", metric.name, " ", metric.type,
               "\n");
    for (const Count& one : counts) {
      out += cat(metric.name, "{resource=\"", one.resource, "\"} ", metric.value(one), "\n");
    }
  }
  return out;
}

void write_metrics(const std::string& path, const std::string& text) {
  const auto slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string name = path.substr(slash + 1);
  const auto dir = cni::Dir::create(directory);
  write_readable(dir, name, text, 0644);
}

}  // namespace devices
