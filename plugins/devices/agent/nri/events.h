#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// What a container runtime says about pods by NRI, and may be told.
namespace devices::nri {

/// Numbers of api.proto. Those up to kRemoveContainer exist in every version; a runtime ends the
/// registration of a plugin that asks for one that it does not know.
enum class Event : std::uint8_t {
  kRunSandbox = 1,
  kStopSandbox = 2,
  kRemoveSandbox = 3,
  kCreateContainer = 4,
  kPostCreateContainer = 5,
  kStartContainer = 6,
  kPostStartContainer = 7,
  kUpdateContainer = 8,
  kPostUpdateContainer = 9,
  kStopContainer = 10,
  kRemoveContainer = 11,
};
/// The bit of an event in the mask that a plugin answers to Configure.
constexpr std::uint32_t bit(Event event) { return 1U << (static_cast<unsigned>(event) - 1); }
inline constexpr std::uint32_t kSandboxEvents =
    bit(Event::kRunSandbox) | bit(Event::kStopSandbox) | bit(Event::kRemoveSandbox);

/// Sandboxes in a list of the runtime, and bytes of each text of one. A pod chooses some of them:
/// names of Kubernetes have at most 253 bytes. All lists as long as this fit in 12 MB.
inline constexpr std::size_t kMaxSandboxes = 5'000, kMaxText = 256, kMaxIps = 16, kMaxIp = 64;

/// A pod's sandbox. Texts are bytes of the runtime, cut at kMaxText, and need not be UTF-8.
struct Sandbox {
  std::string id, name, uid, space;
  std::string netns;             ///< path; empty: that of the node, or not said
  std::vector<std::string> ips;  ///< as the runtime says them, which older ones do not
  std::map<std::string, std::string> annotations = {};  ///< for CreateContainer only, not cut
};

struct Container {
  std::string id, name;
};

/// What is to be added to a container that is being created.
struct DeviceNode {
  std::string path;
  char type = 'c';  ///< or 'b'
  std::int64_t major = 0, minor = 0;
  std::optional<std::uint32_t> mode = {}, uid = {}, gid = {};
  bool operator==(const DeviceNode&) const = default;
};
struct Adjustment {
  std::vector<DeviceNode> nodes;
  std::vector<std::string> cdi;  ///< VENDOR/CLASS=NAME
  std::map<std::string, std::string> sysctl;
  bool empty() const { return nodes.empty() && cdi.empty() && sysctl.empty(); }
};

}  // namespace devices::nri
