// Addresses, networks and MAC addresses as text, and the ranges of host-local. Lines: a
// network, then as far as they are there the start, the end and the gateway of a range.
#include <array>

#include "netlink/types/mac.h"
#include "plugins/leases/cursor.h"
#include "tests/fuzz/fuzz.h"

namespace {

using fuzz::require;
using netlink::Cidr;
using netlink::Ip;
using netlink::Mac;

void check_text(std::string_view text) {
  if (const auto ip = Ip::parse(text)) {
    require(Ip::parse(ip->str()) == ip, "an address is read as it was printed");
    if (const auto next = ip->next()) require(next->prev() == ip, "the one before the next");
  }
  if (const auto cidr = Cidr::parse(text)) {
    require(Cidr::parse(cidr->str()) == cidr, "a network is read as it was printed");
    require(cidr->contains(cidr->ip) && cidr->contains(cidr->network().ip) &&
                cidr->contains(cidr->ip.broadcast(cidr->prefix)),
            "a network has its first and its last address");
  }
  if (const auto mac = Mac::parse(text)) require(Mac::parse(mac->str()) == mac, "a MAC as printed");
}

void walk(const leases::RangeSet& set, const std::optional<Ip>& last) {
  leases::Cursor cursor(set, last);
  for (int i = 0; i < 300; ++i) {
    const auto one = cursor.next();
    if (!one) {
      require(set.size() <= 300, "a walk visits all");
      return;
    }
    require(set.gives(one->ip), "only what the set gives is tried");
  }
  require(set.size() >= 300, "a walk ends");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text = fuzz::text_of(data, size);
  std::array<std::string_view, 5> lines;
  for (std::string_view& line : lines) {
    line = fuzz::take_until(text, "\n");
    check_text(line);
  }
  const auto subnet = Cidr::parse(lines[0]);
  if (!subnet) return 0;
  fuzz::accepts([&] {
    const auto range =
        leases::Range::make(*subnet, Ip::parse(lines[1]), Ip::parse(lines[2]), Ip::parse(lines[3]));
    require(range.start <= range.end && range.subnet.contains(range.start) &&
                range.subnet.contains(range.end),
            "a range lies in its network");
    const leases::RangeSet set{{range}};
    cni::check_ranges(set);
    walk(set, Ip::parse(lines[4]));
  });
  return 0;
}
