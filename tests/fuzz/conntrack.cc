// What the kernel answers about connections.
#include "netlink/nf/conntrack.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace netlink::nf;
  using fuzz::require;
  const fuzz::Datagram datagram(data, size);
  for (const netlink::Reply& reply : netlink::Replies{datagram.bytes()}) {
    const auto flow = decode_flow(attributes_of(reply));
    if (!flow) continue;
    require(!flow->str().empty(), "a connection can be named");
    const FlowFilter filter{.family = flow->original.source.family(),
                            .protocol = flow->protocol,
                            .original_port = flow->original.destination_port,
                            .original_destination = flow->original.destination,
                            .reply_source = flow->reply.source};
    require(filter.matches(*flow), "a connection is what it was looked for as");
    require(!encode_removal(*flow).bytes().empty(), "it can be removed");
    require(!encode_flow_query(filter, true).bytes().empty(), "it can be asked for");
  }
  return 0;
}
