#pragma once

#include <initializer_list>
#include <string>

namespace netlink {

/// Capabilities (capabilities(7)) that something here needs; the numbers are the kernel's.
enum class Capability : unsigned {
  kNetAdmin = 12,  ///< links, addresses, routes, queues, firewall
  kNetRaw = 13,    ///< to read the tables of the legacy iptables; packet sockets
  kSysAdmin = 21,  ///< to enter a network namespace, or make one; programs in the kernel
};

/// The name, for example "CAP_NET_ADMIN".
std::string name_of(Capability capability);

/// Whether this thread has it: its effective set, whatever user namespace that is in. True where
/// the kernel does not say.
bool has(Capability capability) noexcept;

/// Wanted capabilities that this thread lacks, as "CAP_NET_ADMIN and CAP_SYS_ADMIN"; empty: it has
/// all.
std::string missing_of(std::initializer_list<Capability> wanted);

}  // namespace netlink
