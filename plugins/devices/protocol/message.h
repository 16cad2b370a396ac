#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/common/error.h"
#include "plugins/state/ledger_entry.h"

/// The protocol of patchbay-agent's socket: a JSON object and a newline each way, then the
/// connection is closed.
///
///     {"version":1,"do":"claim","pod":{"namespace":"shop","name":"web-0","uid":"5f3a…"},
///      "containerID":"c1","network":"net"}
///     {"devices":["0000:03:00.1"]}
///     {"error":{"code":11,"msg":"…","details":"…"}}
///     {"version":1,"do":"status"}
///     {"resources":[{"name":"vendor.example/nic","devices":8,"healthy":8,"read":true}],
///      "slices":{"generation":3,"slices":1,"devices":8,"error":""}}
namespace devices {

inline constexpr int kProtocolVersion = 1;
inline constexpr std::size_t kMaxQuestion = 64 * 1024, kMaxAnswer = 256 * 1024;  ///< bytes
inline constexpr std::size_t kMaxDevices = 1000;

enum class Verb { kClaim, kStatus };

struct Question {
  Verb verb = Verb::kClaim;
  Pod pod = {};  ///< of kClaim, as are the others
  std::string container_id = {}, network = {};
  bool operator==(const Question&) const = default;
};

struct ResourceState {
  std::string name;
  std::int64_t devices = 0, healthy = 0;
  bool is_read = true;  ///< by the kubelet; an earlier agent does not say it
  bool operator==(const ResourceState&) const = default;
};

/// The ResourceSlices of the node.
struct SlicesStatus {
  std::int64_t generation = 0, slices = 0, devices = 0;  ///< generation 0: none was published
  std::string error = {};  ///< why they are not as they should be; empty: they are
  bool operator==(const SlicesStatus&) const = default;
};

struct Answer {
  std::vector<std::string> devices = {};      ///< of kClaim
  std::vector<ResourceState> resources = {};  ///< of kStatus
  std::optional<SlicesStatus> slices = {};    ///< of kStatus; nullopt: the agent has no DRA
  std::optional<cni::Error> error = {};
};

/// With the newline.
std::string line_of(const Question& question);
std::string line_of(Verb verb, const Answer& answer);

/// \throws cni::Error(kDecodingFailure) for a line that is no question: longer or deeper than the
/// limits, of another type, without a pod; kIncompatibleVersion for one of a later version.
Question question_in(std::string_view line);
/// \throws cni::Error(kDecodingFailure) for a line that is no answer.
Answer answer_in(std::string_view line);

}  // namespace devices
