#pragma once

namespace devices {

/// Gives memory back to the kernel if much of it is free: objects of the API server may be
/// megabytes, and stay the agent's else.
void trim_after_much() noexcept;

}  // namespace devices
