#pragma once

#include <string>
#include <string_view>

#include "libcni/daemon/log.h"

namespace devices {

using cni::Level;

/// What a line of the agent's log may have; an empty one is left out.
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

}  // namespace devices
