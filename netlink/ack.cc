#include "netlink/ack.h"

#include <linux/netlink.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace netlink {

namespace {

constexpr std::size_t kHeader = sizeof(nlmsghdr);

// NLA_ALIGN of linux/netlink.h is signed.
constexpr std::size_t aligned(std::size_t size) { return (size + 3) & ~std::size_t{3}; }

// The text among the attributes between begin and end.
std::string find_text(const unsigned char* begin, const unsigned char* end) {
  while (static_cast<std::size_t>(end - begin) >= sizeof(nlattr)) {
    nlattr attribute;
    std::memcpy(&attribute, begin, sizeof attribute);
    const auto left = static_cast<std::size_t>(end - begin);
    if (attribute.nla_len < sizeof attribute || attribute.nla_len > left) break;
    if ((attribute.nla_type & NLA_TYPE_MASK) == NLMSGERR_ATTR_MSG) {
      const auto* const text = reinterpret_cast<const char*>(begin + sizeof attribute);
      return {text, ::strnlen(text, attribute.nla_len - sizeof attribute)};
    }
    const std::size_t step = aligned(attribute.nla_len);
    if (step >= left) break;
    begin += step;
  }
  return {};
}

}  // namespace

std::optional<Ack> decode_ack(const nlmsghdr* message, std::size_t available) {
  if (available < kHeader + sizeof(int)) return std::nullopt;
  nlmsghdr head;
  std::memcpy(&head, message, kHeader);
  if (head.nlmsg_type != NLMSG_ERROR && head.nlmsg_type != NLMSG_DONE) return std::nullopt;
  if (head.nlmsg_len < kHeader + sizeof(int) || head.nlmsg_len > available) return std::nullopt;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(message);
  int error = 0;
  std::memcpy(&error, bytes + kHeader, sizeof error);
  const int most = std::numeric_limits<int>::max();
  error = error < 0 ? -std::max(error, -most) : 0;
  Ack ack{.sequence = head.nlmsg_seq, .error = error, .text = {}};
  if ((head.nlmsg_flags & NLM_F_ACK_TLVS) == 0) return ack;

  std::size_t attributes = kHeader + sizeof(int);
  if (head.nlmsg_type == NLMSG_ERROR) {  // the request comes first, or only its header
    if (head.nlmsg_len < attributes + kHeader) return ack;
    nlmsghdr request;
    std::memcpy(&request, bytes + attributes, kHeader);
    const bool capped = (head.nlmsg_flags & NLM_F_CAPPED) != 0;
    attributes += capped ? kHeader : aligned(request.nlmsg_len);
  }
  if (attributes < head.nlmsg_len) ack.text = find_text(bytes + attributes, bytes + head.nlmsg_len);
  return ack;
}

}  // namespace netlink
