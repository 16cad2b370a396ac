#include "netlink/ack.h"

#include <linux/netlink.h>

#include <algorithm>
#include <limits>

namespace netlink {

namespace {

// The offset of the attributes: after the error and, in an NLMSG_ERROR, the request or its header.
std::size_t fixed_size(const Reply& reply) {
  if (reply.type() == NLMSG_DONE) return sizeof(int);
  const auto answer = read_struct<nlmsgerr>(reply.payload());
  const bool capped = (reply.flags() & NLM_F_CAPPED) != 0;
  return capped ? sizeof answer : sizeof answer.error + aligned(answer.msg.nlmsg_len);
}

}  // namespace

std::optional<Ack> decode_ack(const Reply& reply) {
  if (reply.type() != NLMSG_ERROR && reply.type() != NLMSG_DONE) return std::nullopt;
  if (reply.payload().size() < sizeof(int)) return std::nullopt;
  const int error = reply.fixed<int>();
  constexpr int kMax = std::numeric_limits<int>::max();
  Ack ack{
      .sequence = reply.sequence(), .error = error < 0 ? -std::max(error, -kMax) : 0, .text = {}};
  if ((reply.flags() & NLM_F_ACK_TLVS) != 0) {
    ack.text = reply.attributes(fixed_size(reply)).text(NLMSGERR_ATTR_MSG);
  }
  return ack;
}

}  // namespace netlink
