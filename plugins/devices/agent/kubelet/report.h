#pragma once

#include <functional>
#include <string>

namespace devices {

/// Something of the kubelet that the log has. Texts of the kubelet are clean() in it.
struct Event {
  enum class Level { kInfo, kWarning, kError };
  Level level = Level::kInfo;
  std::string what;           ///< "register", "serve", "stop"
  std::string resource = {};  ///< empty: none
  std::string error = {};     ///< empty: none
  std::string details = {};   ///< a path, or who
};

/// Called by several threads at once.
using Report = std::function<void(const Event&)>;

/// A text that others chose, for the log and for errors: '?' for each byte that is not printable ASCII, "..." for what
/// is beyond 200 characters.
std::string clean(const std::string& text);

}  // namespace devices
