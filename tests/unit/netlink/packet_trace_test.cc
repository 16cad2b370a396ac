#include "netlink/nf/packet_trace.h"

#include <doctest/doctest.h>
#include <linux/in.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include "netlink/nf/match.h"
#include "tests/unit/netlink/any_bytes.h"

using namespace netlink;
using namespace netlink::nf;

namespace {

Message step(std::uint32_t type) {
  Message out = nf_tables_message(NFT_MSG_TRACE, 0, TableFamily::kInet);
  out.put_be32(NFTA_TRACE_ID, 0x01020304);
  out.put_be32(NFTA_TRACE_TYPE, type);
  out.put(NFTA_TRACE_TABLE, std::string_view("filter"));
  out.put(NFTA_TRACE_CHAIN, std::string_view("input"));
  out.put_be64(NFTA_TRACE_RULE_HANDLE, 7);
  out.nest(NFTA_TRACE_VERDICT, [&] {
    out.put_be32(NFTA_VERDICT_CODE, static_cast<std::uint32_t>(NFT_JUMP));
    out.put(NFTA_VERDICT_CHAIN, std::string_view("other"));
  });
  out.put_be32(NFTA_TRACE_IIF, 3);
  out.put_be32(NFTA_TRACE_MARK, 0x4000);
  out.put_be32(NFTA_TRACE_POLICY, NF_DROP);
  out.put(NFTA_TRACE_NETWORK_HEADER, View(Bytes{0x45, 0, 0, 1}));
  return out;
}

std::optional<TraceStep> read(const Message& message) {
  return decode_trace(TableFamily::kInet, attributes_of(Reply(message.bytes())));
}

}  // namespace

TEST_CASE("a step says which rule decided what, and of which packet") {
  const auto one = read(step(NFT_TRACETYPE_RULE));
  REQUIRE(one);
  CHECK(one->packet == 0x01020304);
  CHECK(one->kind == TraceStep::Kind::kRule);
  CHECK(one->chain == ChainId{TableFamily::kInet, "filter", "input"});
  CHECK(one->rule == 7);
  CHECK(one->verdict == Verdict{NFT_JUMP, "other"});
  CHECK(one->in == 3);
  CHECK(one->out == 0);
  CHECK(one->mark == 0x4000);
  CHECK(one->network == Bytes{0x45, 0, 0, 1});
}

TEST_CASE("the verdict at the end of a chain is its policy") {
  const auto one = read(step(NFT_TRACETYPE_POLICY));
  REQUIRE(one);
  CHECK(one->verdict == drop());
}

TEST_CASE("a step of an unknown kind, or of no packet, is passed over") {
  CHECK_FALSE(read(step(99)));
  CHECK_FALSE(read(nf_tables_message(NFT_MSG_TRACE, 0, TableFamily::kInet)));
}

TEST_CASE("odd bytes are harmless as steps") {
  harmless_for_any_bytes(step(NFT_TRACETYPE_RULE), [](const Reply& reply) {
    if (const auto one = decode_trace(TableFamily::kIp, attributes_of(reply))) {
      CHECK(one->network.size() < 100);
    }
  });
}

TEST_CASE("a tracing table is its maker's own, and before all others") {
  const Batch batch = tracing_table(TableFamily::kInet, "t", {{IPPROTO_TCP, 4, {1, 2, 3, 4}}});
  const auto* const table = std::get_if<Table>(&batch.changes()[0]);
  REQUIRE(table != nullptr);
  CHECK(table->is_owned);
  CHECK(batch.changes().size() == 5);  // two chains with a rule each
  const Message message = encode(batch.changes()[0]).front();
  CHECK(attributes_of(Reply(message.bytes())).be32(NFTA_TABLE_FLAGS) == NFT_TABLE_F_OWNER);
}
