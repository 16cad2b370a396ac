#pragma once

/// The subcommands. Each returns an exit status.
namespace dhcp {

/// `dhcp daemon`: the daemon's process.
int daemon_command(int argc, char** argv);
/// `dhcp leases`: lists the leases of the daemon.
int leases_command(int argc, char** argv);

}  // namespace dhcp
