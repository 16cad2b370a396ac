#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "libcni/daemon/log.h"

namespace devices {

using cni::Level;

/// Members of a line of the agent's log; an empty one is left out.
struct LogFields {
  std::string resource = {}, device = {}, pod = {}, error = {};
};
inline void log(Level level, std::string_view what, const LogFields& fields = {}) noexcept {
  cni::log(level, what,
           {{"resource", fields.resource},
            {"device", fields.device},
            {"pod", fields.pod},
            {"error", fields.error}});
}

/// Runs fn. An error is logged, and fails no call: files are for readers outside.
template <class Fn>
void attempt(const char* what, const std::string& resource, Fn&& fn) noexcept {
  try {
    fn();
  } catch (const std::exception& e) {
    log(Level::kWarning, what, {.resource = resource, .error = e.what()});
  }
}

}  // namespace devices
