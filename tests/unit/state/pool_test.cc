#include "plugins/state/pool.h"

#include <doctest/doctest.h>

#include <string>

namespace blocks {

using netlink::Cidr;
using netlink::Ip;

namespace {

Range range(const std::string& subnet, unsigned block_size, const std::string& exclude = {}) {
  const auto ends = cni::AddressRange::make(*Cidr::parse(subnet));
  Range out{.subnet = ends.subnet,
            .start = ends.start,
            .end = ends.end,
            .gateway = ends.gateway,
            .block_size = block_size};
  if (!exclude.empty()) out.exclude.push_back(*Cidr::parse(exclude));
  return out;
}

Cidr cidr(const std::string& text) { return *Cidr::parse(text); }

std::string runs(const Range& of, const std::string& block) {
  std::string out;
  for (const auto& run : of.runs_in(cidr(block))) out += run.str() + " ";
  return out;
}

std::string blocks_of(const Range& of, unsigned most = 8) {
  std::string out;
  auto at = of.first_block();
  for (unsigned i = 0; at && i < most; ++i, at = of.next_block(*at)) out += at->str() + " ";
  return out;
}

}  // namespace

TEST_CASE("pool: blocks are aligned, and all addresses of those in the middle are given out") {
  const Range one = range("10.5.0.0/26", 28);
  CHECK(blocks_of(one) == "10.5.0.0/28 10.5.0.16/28 10.5.0.32/28 10.5.0.48/28 ");
  CHECK(one.blocks() == 4);
  CHECK(one.size_of(cidr("10.5.0.0/28")) == 14);   // without the network and the gateway
  CHECK(one.size_of(cidr("10.5.0.16/28")) == 16);  // its own ends are addresses like others
  CHECK(one.size_of(cidr("10.5.0.48/28")) == 15);  // without the broadcast address
  CHECK(runs(one, "10.5.0.48/28") == "10.5.0.48-10.5.0.62 ");
}

TEST_CASE("pool: a range that begins and ends within blocks has a part of them") {
  Range one = range("10.5.0.0/24", 28);
  one.start = *Ip::parse("10.5.0.20");
  one.end = *Ip::parse("10.5.0.40");
  CHECK(blocks_of(one) == "10.5.0.16/28 10.5.0.32/28 ");
  CHECK(runs(one, "10.5.0.16/28") == "10.5.0.20-10.5.0.31 ");
  CHECK(runs(one, "10.5.0.32/28") == "10.5.0.32-10.5.0.40 ");
  CHECK_FALSE(one.has_block(cidr("10.5.0.0/28")));
  CHECK_FALSE(one.has_block(cidr("10.5.0.48/28")));
  CHECK(runs(one, "10.5.0.48/28").empty());
}

TEST_CASE("pool: blocks without an address to give out are not usable") {
  CHECK(range("10.5.0.0/24", 28).usable_blocks() == 16);
  CHECK(range("10.5.0.0/24", 28, "10.5.0.0/28").usable_blocks() == 15);
  CHECK(range("10.5.0.0/24", 28, "10.5.0.20/30").usable_blocks() == 16);
  CHECK(range("10.5.0.0/24", 28, "10.5.0.0/25").usable_blocks() == 8);
  CHECK(range("10.5.0.0/24", 28, "10.5.0.0/24").usable_blocks() == 0);
  CHECK(range("10.5.0.0/30", 30).usable_blocks() == 1);
  CHECK(range("fd00:5::/64", 120, "fd00:5::/65").usable_blocks() == std::uint64_t{1} << 55U);
  Range edges = range("10.5.0.0/24", 28);
  edges.start = edges.gateway = *Ip::parse("10.5.0.15");
  CHECK(edges.usable_blocks() == 15);
  edges.end = edges.gateway = *Ip::parse("10.5.0.32");
  CHECK(edges.usable_blocks() == 2);
}

TEST_CASE("pool: excluded networks cut blocks into runs, and take whole blocks") {
  CHECK(runs(range("10.5.0.0/24", 28, "10.5.0.20/30"), "10.5.0.16/28") ==
        "10.5.0.16-10.5.0.19 10.5.0.24-10.5.0.31 ");
  CHECK(runs(range("10.5.0.0/24", 28, "10.5.0.16/32"), "10.5.0.16/28") == "10.5.0.17-10.5.0.31 ");
  CHECK(runs(range("10.5.0.0/24", 28, "10.5.0.31/32"), "10.5.0.16/28") == "10.5.0.16-10.5.0.30 ");
  const Range most = range("10.5.0.0/24", 28, "10.5.0.0/25");
  CHECK(blocks_of(most, 2) == "10.5.0.128/28 10.5.0.144/28 ");
  CHECK(most.size_of(cidr("10.5.0.32/28")) == 0);
  CHECK_FALSE(range("10.5.0.0/24", 28, "10.5.0.0/24").first_block());
}

TEST_CASE("pool: overlapping exclusions count once") {
  Range one = range("10.5.0.0/24", 28, "10.5.0.20/30");
  one.exclude.push_back(cidr("10.5.0.22/31"));
  one.exclude.push_back(cidr("10.5.0.16/29"));
  CHECK(runs(one, "10.5.0.16/28") == "10.5.0.24-10.5.0.31 ");
}

TEST_CASE("pool: a gateway in a block is not given out, wherever it is") {
  Range one = range("10.5.0.0/24", 30);
  one.gateway = *Ip::parse("10.5.0.18");
  CHECK(one.size_of(cidr("10.5.0.16/30")) == 3);
  CHECK_FALSE(one.gives(*Ip::parse("10.5.0.18")));
  one.exclude = {cidr("10.5.0.16/31"), cidr("10.5.0.19/32")};
  CHECK(one.size_of(cidr("10.5.0.16/30")) == 0);
  CHECK(*one.next_block(cidr("10.5.0.12/30")) == cidr("10.5.0.20/30"));
}

TEST_CASE("pool: a /64 is cut without counting its addresses") {
  const Range one = range("fd00:5::/64", 120, "fd00:5::/65");
  CHECK(blocks_of(one, 2) == "fd00:5:0:0:8000::/120 fd00:5::8000:0:0:100/120 ");
  CHECK(range("fd00:5::/64", 64).blocks() == 1);
  CHECK(range("fd00:5::/112", 120).blocks() == 256);
  CHECK(*range("fd00:5::/120", 120).first_block() == cidr("fd00:5::/120"));
  CHECK_FALSE(range("fd00:5::/120", 120).next_block(cidr("fd00:5::/120")));
}

TEST_CASE("pool: the end of the address space ends the blocks") {
  const Range one = range("255.255.255.0/24", 28);
  CHECK_FALSE(one.next_block(cidr("255.255.255.240/28")));
  Range all = range("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00/120", 124);
  CHECK_FALSE(all.next_block(cidr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0/124")));
  CHECK(all.size_of(cidr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0/124")) == 16);
}

TEST_CASE("pool: a block belongs to the set whose range has it, with that length alone") {
  const Pool pool{.sets = {{range("10.5.0.0/24", 28)}, {range("fd00:5::/64", 120)}}};
  CHECK(pool.set_of(cidr("10.5.0.16/28")) == 0);
  CHECK(pool.set_of(cidr("fd00:5::100/120")) == 1);
  CHECK_FALSE(pool.set_of(cidr("10.5.0.16/29")));
  CHECK_FALSE(pool.set_of(cidr("10.5.0.17/28")));
  CHECK(pool.find(cidr("10.6.0.0/28")) == nullptr);
  CHECK(pool.find(*Ip::parse("10.5.0.9"))->block_of(*Ip::parse("10.5.0.9")) == cidr("10.5.0.0/28"));
}

}  // namespace blocks
