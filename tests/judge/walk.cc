// The judge of the attribute reader, between whoever reads a message and netlink/attributes: libmnl
// walks the same bytes.
#include "tests/judge/range.h"

using netlink::Attribute;
using netlink::Attributes;
using netlink::Reply;
using netlink::View;

#define ATTRIBUTES "_ZNK7netlink5Reply10attributesEm"
Attributes real_attributes(const Reply* reply, std::size_t size) __asm__("__real_" ATTRIBUTES);
Attributes wrap_attributes(const Reply* reply, std::size_t size) __asm__("__wrap_" ATTRIBUTES);

namespace {

// Each value is walked as if attributes were nested in it: both readers read the same nonsense.
void walk(const Attributes& ours, const judge::Range& theirs) {
  auto one = ours.begin();
  theirs.walk([&](const nlattr* other) {
    judge::require(one != Attributes::end(), "our walk ends before libmnl's");
    judge::same("the type of an attribute", (*one).type, mnl_attr_get_type(other));
    const judge::Range value(other);
    judge::same("the length of an attribute", (*one).value.size(), value.size);
    judge::require(reinterpret_cast<const char*>((*one).value.data()) == value.at,
                   "where the value of an attribute begins");
    walk((*one).nested(), value);
    ++one;
  });
  judge::require(one == Attributes::end(), "our walk goes on after libmnl's");
}

}  // namespace

Attributes wrap_attributes(const Reply* reply, std::size_t size) {
  const Attributes out = real_attributes(reply, size);
  const View message = reply->bytes();
  const auto* const head = reinterpret_cast<const nlmsghdr*>(message.data());
  // Tests cut messages off behind the header that says how long they are.
  if (mnl_nlmsg_ok(head, static_cast<int>(message.size()))) walk(out, {message, size});
  return out;
}
