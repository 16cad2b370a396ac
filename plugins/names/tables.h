#pragma once

/// Tables of nf_tables that plugins of this project create. Each is in one plugin's hands; other
/// programs' rules are not in them.
namespace names {

/// The names of all begin so.
inline constexpr const char* kTablePrefix = "patchbay_";

/// The plugin firewall, backend nftables: families inet and bridge.
inline constexpr const char* kFirewallTable = "patchbay_firewall";
/// `ipMasq` of bridge and ptp, ipMasqBackend nftables: family inet.
inline constexpr const char* kMasqueradeTable = "patchbay_masquerade";
/// portmap, backend nftables: families ip and ip6. A network with conditions, or with a mark of its
/// own, has a table whose name begins so.
inline constexpr const char* kHostPortTable = "patchbay_hostport";

}  // namespace names
