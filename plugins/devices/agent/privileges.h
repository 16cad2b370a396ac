#pragma once

namespace devices {

/// Drops all capabilities for good and sets no_new_privs, before there are threads: files and
/// sockets that the agent needs are root's, as it is. The plugin moves devices, this process never
/// does. A failure is logged.
void drop_capabilities() noexcept;

}  // namespace devices
