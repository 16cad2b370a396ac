#pragma once

namespace devices {

/// Writes what gRPC and protobuf log as lines of the agent's log, which are JSON: errors, at most
/// one a second of each, because others can cause them at any rate. Before they are used.
void take_library_logs();

}  // namespace devices
