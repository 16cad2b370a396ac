// State files of portmap.
#include "plugins/portmap/attachment.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace portmap;
  using fuzz::require;
  const std::string text(fuzz::text_of(data, size));
  std::optional<Container> container;
  fuzz::accepts([&] { container = Container::from(text); });
  if (!container) return 0;
  require(!container->attachments.empty(), "a container has an attachment");
  require(Container::from(container->text()) == container,
          "a state file is read as it was written");
  for (const Attachment& one : container->attachments) {
    require(one.tag().str().size() == 50, "a tag has 50 characters");
    require(one.options.mark_bit < 32, "a mark has 32 bits");
    require(!one.pod.v4 || one.pod.v4->ip.is_v4(), "an IPv4 address is one");
    require(!one.pod.v6 || !one.pod.v6->ip.is_v4(), "an IPv6 address is one");
    for (const Claim& claim : one.claims) {
      require(claim.key.port != 0 && claim.target_port != 0, "a port is not 0");
      require(!claim.key.address || claim.key.address->family() == claim.key.family,
              "a claim is of one family");
    }
  }
  return 0;
}
