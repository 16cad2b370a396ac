#include "plugins/devices/agent/files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "libcni/common/error.h"

namespace devices {

namespace {

// No reader takes a name that does not end in .json, .yaml or .prom.
constexpr const char* kWrittenAside = ".patchbay-agent.new";

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

/// A metric of the ResourceSlices.
struct SliceMetric {
  const char* name;
  const char* type;
  const char* help;
  std::int64_t (*value)(const dra::SliceState&);
};
constexpr SliceMetric kSliceMetrics[] = {
    {"patchbay_agent_slices", "gauge", "ResourceSlices of this node.",
     [](const dra::SliceState& of) { return of.slices; }},
    {"patchbay_agent_slice_devices", "gauge", "Devices in these.",
     [](const dra::SliceState& of) { return of.devices; }},
    {"patchbay_agent_slice_generation", "gauge", "Generation of the pool.",
     [](const dra::SliceState& of) { return of.generation; }},
    {"patchbay_agent_slices_right", "gauge", "Whether they are as they should be: 1 or 0.",
     [](const dra::SliceState& of) -> std::int64_t {
       return of.generation > 0 && of.error.empty() ? 1 : 0;
     }},
    {"patchbay_agent_slice_errors_total", "counter", "Failed calls of the API server.",
     [](const dra::SliceState& of) { return of.errors; }},
};

std::string head_of(const auto& metric) {
  return cat("# HELP ", metric.name, " ", metric.help, "\n# TYPE ", metric.name, " ", metric.type,
             "\n");
}

}  // namespace

void write_readable(const cni::Dir& dir, const std::string& name, const std::string& text,
                    mode_t mode) {
  dir.replace(name, text, kWrittenAside);
  if (::fchmodat(dir.fd(), name.c_str(), mode, 0) != 0) {
    throw netlink::Error(cni::cat("make '", dir.path(), "/", name, "' readable"), errno);
  }
}

std::string device_info_name(const std::string& resource, const std::string& id) {
  std::string out = cni::cat(resource, "-", id, "-device.json");
  std::ranges::replace(out, '/', '-');
  return out;
}

void write_device_info(const std::string& dir_path, const std::string& name,
                       const DeviceInfo& info) {
  nlohmann::ordered_json pci = {{"pci-address", info.pci}};
  if (!info.physical_function.empty()) pci["pf-pci-address"] = info.physical_function;
  const nlohmann::ordered_json doc = {
      {"type", "pci"}, {"version", "1.1.0"}, {"pci", std::move(pci)}};
  const auto dir = cni::Dir::create(dir_path);
  write_readable(dir, name, doc.dump(), 0444);  // workloads read it
}

void remove_device_info(const std::string& dir_path, const std::string& name) {
  if (const auto dir = cni::Dir::open(dir_path)) dir->remove(name);
}

std::string metrics_text(const std::vector<Count>& counts,
                         const std::optional<dra::SliceState>& slices) {
  std::string out;
  for (const Metric& metric : kMetrics) {
    out += head_of(metric);
    for (const Count& one : counts) {
      out += cat(metric.name, "{resource=\"", one.resource, "\"} ", metric.value(one), "\n");
    }
  }
  for (const SliceMetric& metric : kSliceMetrics) {
    if (slices) out += cat(head_of(metric), metric.name, " ", metric.value(*slices), "\n");
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
