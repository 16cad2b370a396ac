#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "netlink/channel.h"
#include "netlink/nf/batch.h"
#include "netlink/packet_filter.h"

/// What nf_tables does with packets on which a rule has set NFT_META_NFTRACE (nft(8), "monitor";
/// net/netfilter/nf_tables_trace.c).
namespace netlink::nf {

/// A step of one packet (NFT_MSG_TRACE): a rule matched, or a chain came to its end.
struct TraceStep {
  enum class Kind : std::uint8_t { kRule, kReturn, kPolicy };

  std::uint32_t packet = 0;  ///< equal for the steps of one packet
  Kind kind = Kind::kRule;
  ChainId chain = {};
  std::uint64_t rule = 0;  ///< its handle, of kRule and kReturn
  Verdict verdict = {};    ///< of kPolicy: the policy
  int in = 0, out = 0;     ///< indexes of links; 0: none
  std::uint32_t mark = 0;
  /// The beginnings of the headers; the kernel sends them with the first step in each chain that is
  /// a hook's alone. Of kIp and kIp6 the whole header without options, of the transport 20 bytes.
  Bytes network = {}, transport = {};
  bool operator==(const TraceStep&) const = default;
};

/// Reads an NFT_MSG_TRACE; nothing where it has no packet, or its kind is unknown.
std::optional<TraceStep> decode_trace(TableFamily family, const Attributes& attributes);

using TraceFilter = netlink::PacketFilter;
/// A chain of a table of the caller's own, and what it traces; none: it only shows that traced
/// packets come by.
Batch tracing_chain(const ChainId& chain, const Hook& hook,
                    const std::vector<TraceFilter>& filters);
/// A table of the family, the caller's own (Table::is_owned), that traces packets that one of the
/// filters selects: before all other rules, as they come and as the node sends them.
Batch tracing_table(TableFamily family, const std::string& name,
                    const std::vector<TraceFilter>& filters);

/// Hears of the steps of all packets that are traced in the network namespace in which the thread
/// is when it is made.
class PacketTrace {
 public:
  /// \throws Error.
  PacketTrace();
  /// Readable where there are steps.
  int fd() const { return channel_.fd(); }
  /// The steps since the last call, in order, at most that many messages. Where so many came that
  /// the kernel dropped some, is_complete() is false from then on.
  std::vector<TraceStep> take(std::size_t most = 10'000);
  bool is_complete() const { return is_complete_; }

 private:
  Channel channel_;
  bool is_complete_ = true;
};

}  // namespace netlink::nf
