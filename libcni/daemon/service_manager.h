#pragma once

#include <string_view>

namespace cni {

/// Tells the service manager that started this process "READY=1", "STOPPING=1" or another state of
/// sd_notify(3); nothing without NOTIFY_SOCKET. A failure is noted: the daemon serves all the same.
void notify_service_manager(std::string_view state) noexcept;

}  // namespace cni
