#pragma once

#include <string>
#include <vector>

#include "plugins/dhcp/protocol/packet.h"
#include "plugins/state/dhcp_lease.h"

namespace dhcp {

/// The lease that a DHCPACK gives to who sent the request at that time (RFC 2131, section 4.4.5).
/// \throws cni::Error for one that gives none.
Lease lease_of(const Message& ack, Time requested);

/// Whether it is unicast, and neither of 0.0.0.0/8, a loopback address nor reserved.
bool is_host_address(const Ip& ip);
/// Whether a server can have this identifier, to which the client sends.
bool can_serve(const Ip& server, const Ip& client);

/// Whether the pod's interface has to be changed: other address, routes or MTU.
bool configures_alike(const Lease& left, const Lease& right);

/// Option 33: destinations with the mask of their class, each with its router (RFC 2132,
/// section 5.8).
std::vector<cni::Route> classful_routes(View value);
/// Option 121 (RFC 3442); empty if it is malformed.
std::vector<cni::Route> classless_routes(View value);
/// Option 119 (RFC 1035, section 4.1.4, and RFC 3397): names that a resolver's configuration may
/// hold; the others are passed over.
std::vector<std::string> search_domains(View value);

}  // namespace dhcp
