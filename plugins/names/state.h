#pragma once

#include <string_view>

/// Folders and sockets in which plugins keep what outlives a call. Files of a folder in /run/cni
/// are one per attachment, named by OwnerTag::prefix(), unless a line says otherwise.
namespace names {

/// The ledger of devices that pods ask for: a file per device. It survives a reboot.
inline constexpr const char* kDevicesLedgerDir = "/var/lib/cni/devices";
/// In it: the ID of a device follows, and the file says which attachment has it.
inline constexpr std::string_view kDevicesHolder = ".held=";            // no ID has a "="
inline constexpr const char* kDevicesSocket = "/run/cni/devices.sock";  ///< of patchbay-agent
inline constexpr const char* kAgentConfig = "/etc/patchbay/devices.json";
inline constexpr const char* kAgentUnit = "patchbay-agent.service";
inline constexpr const char* kDhcpStateDir = "/run/cni/dhcp";  ///< leases of the daemon of dhcp
inline constexpr const char* kDhcpSocket = "/run/cni/dhcp.sock";
/// Follows the path of a socket or folder: the daemon that uses it holds the lock of that file.
inline constexpr const char* kLockSuffix = ".lock";
inline constexpr const char* kFirewallStateDir = "/run/cni/firewall";  ///< a link per pod address
inline constexpr const char* kFlannelLockDir = "/run/cni/flannel";     ///< a lock alone
inline constexpr const char* kHostDeviceStateDir = "/run/cni/host-device";
inline constexpr const char* kPortmapStateDir = "/run/cni/portmap";  ///< a file per container
inline constexpr const char* kRouteTablesLockDir = "/run/cni/route-tables";  ///< of sbr and vrf
inline constexpr const char* kSbrStateDir = "/run/cni/sbr";
inline constexpr const char* kTuningStateDir = "/run/cni/tuning";  ///< the default of `dataDir`
inline constexpr const char* kVrfStateDir = "/run/cni/vrf";

/// The default of host-local's `dataDir`: a folder per network, in it a file per leased address.
inline constexpr const char* kHostLocalDataDir = "/var/lib/cni/networks";
/// The default of flannel's `dataDir`: a file per container, as the reference plugin has it.
inline constexpr const char* kFlannelDataDir = "/var/lib/cni/flannel";
/// The results cache of runtimes (cni::Cache), which host-local reads.
inline constexpr const char* kResultsDir = "/var/lib/cni/results";

inline constexpr const char* kRunDir = "/run/cni";  ///< what a reboot ends

/// A folder in which calls of the plugin write, by default, with a file `lock`.
struct StateFolder {
  const char* dir;
  std::string_view plugin;
};
inline constexpr StateFolder kStateDirs[] = {{kHostLocalDataDir, "host-local"},
                                             {kFlannelDataDir, "flannel"},
                                             {kFlannelLockDir, "flannel"},
                                             {kDevicesLedgerDir, "devices"},
                                             {kDhcpStateDir, "dhcp"},
                                             {kFirewallStateDir, "firewall"},
                                             {kHostDeviceStateDir, "host-device"},
                                             {kPortmapStateDir, "portmap"},
                                             {kRouteTablesLockDir, "sbr"},
                                             {kRouteTablesLockDir, "vrf"},
                                             {kSbrStateDir, "sbr"},
                                             {kTuningStateDir, "tuning"},
                                             {kVrfStateDir, "vrf"}};

}  // namespace names
