// Acknowledgements with extended texts, and the answers of sock_diag(7).
#include "netlink/ack.h"
#include "netlink/diag.h"
#include "netlink/types/error.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using fuzz::require;
  const fuzz::Datagram datagram(data, size);
  for (const netlink::Reply& reply : netlink::Replies{datagram.bytes()}) {
    if (const auto ack = netlink::decode_ack(reply)) {
      require(ack->error >= 0, "an errno value is positive");
      require(ack->text.find('\0') == std::string::npos, "a text ends with its NUL");
      const netlink::Error error("ask the kernel", ack->error, ack->text);
      require(*error.what() != '\0', "an error says what is wrong");
    }
  }
  netlink::HolderDump dump;
  try {
    dump.read(datagram.bytes());
  } catch (const netlink::Error& e) {
    require(e.error() > 0, "a refusal has an errno value");
  }
  for (const auto& holder : dump.holders) require(!holder.address.str().empty(), "an address");
  return 0;
}
