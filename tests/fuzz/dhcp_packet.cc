// What a DHCP server sends: the packet around it, the message, and the lease in it.
#include "libcni/common/error.h"
#include "plugins/dhcp/protocol/lease.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace dhcp;
using fuzz::require;

void look_at(const Message& message) {
  require(decode(encode(message)) == message, "a message is read as it was written");
  try {
    const Lease lease = lease_of(message, std::chrono::hours(1));
    require(lease.address.prefix >= 1 && lease.address.prefix <= 32, "an address has a prefix");
    require(!lease.address.ip.is_unspecified() && lease.address.ip.is_v4(),
            "a lease has an address");
    require(lease.renew <= lease.rebind && lease.rebind <= lease.expire,
            "T1, T2, end are in order");
    require(lease.renew > std::chrono::hours(1), "a lease is not over at once");
    for (const auto& route : lease.routes) {
      require(route.dst == route.dst.network(), "a route leads to a network");
    }
    for (const std::string& name : lease.dns.search) {
      require(name.find_first_of(" \t\r\n;#") == std::string::npos, "a resolver can have the name");
    }
  } catch (const cni::Error&) {  // refused
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Datagram input(data, size);
  for (const bool pending : {false, true}) {
    if (const auto payload = payload_of(input.bytes(), pending)) {
      require(payload->size() <= size, "a payload is a part of its packet");
      if (const auto message = decode(*payload)) look_at(*message);
    }
  }
  if (const auto message = decode(input.bytes())) look_at(*message);
  return 0;
}
