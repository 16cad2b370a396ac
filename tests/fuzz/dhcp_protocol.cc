// What comes by the DHCP daemon's socket, from plugins and to them.
#include "plugins/dhcp/protocol/protocol.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dhcp;
  fuzz::accepts([&] {
    gob::Decoder decoder;
    std::string received(fuzz::text_of(data, size));
    std::optional<gob::Value> header;
    while (auto value = decoder.take(received)) {
      if (!header) {
        header = std::move(value);
        continue;
      }
      const Call call = call_from(*header, *value);
      gob::Decoder again;
      std::string sent = encode(call);
      const auto first = again.take(sent);
      const auto second = again.take(sent);
      fuzz::require(first && second && call_from(*first, *second) == call,
                    "a call is read as it was written");
      fuzz::accepts([&] {
        const cni::Result result = result_from(*value);
        for (const auto& ip : result.ips) {
          fuzz::require(ip.cidr.prefix <= ip.cidr.ip.bits(), "a prefix fits its address");
        }
      });
      header.reset();
    }
  });
  return 0;
}
