#include "plugins/cluster-pool/conf.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "tests/unit/defaults.h"
#include "tests/unit/leases/fixture.h"

namespace cluster_pool {

using leases::test::error_of;
using leases::test::request;
using netlink::Cidr;
using netlink::Ip;

namespace {

std::string conf(const std::string& ipam, const std::string& rest = "") {
  return R"({"cniVersion": "1.1.0", "name": "net", )" + rest + R"("ipam": {)" + ipam + "}}";
}

std::string refusal(const std::string& ipam, const std::string& args = "") {
  return error_of([&] { Conf::parse(request(conf(ipam), "ctr", args)); });
}

Conf parsed(const std::string& ipam) { return Conf::parse(request(conf(ipam))); }

const std::string kSubnet = R"("subnet": "10.5.0.0/16")";

}  // namespace

TEST_CASE("conf: what the table calls the default is what holds without the key") {
  auto with = request(conf(kSubnet));
  with.conf = with_defaults(with.conf, kManual);
  const Conf own = Conf::parse(with), without = parsed(kSubnet);
  CHECK(own.pool == without.pool);
  CHECK(own.wait == without.wait);
  CHECK(own.wait.count() == 10);
  CHECK(without.pool.data_dir == "/var/lib/cni/networks");
}

TEST_CASE("conf: the agent, which is elsewhere, hears of an absolute dataDir") {
  CHECK(parsed(kSubnet + R"(, "dataDir": "leases")").pool.data_dir ==
        (std::filesystem::current_path() / "leases").string());
}

TEST_CASE("conf: blocks have 16 addresses, of IPv6 256, and a smaller subnet is one block") {
  const auto size = [](const std::string& subnet) {
    return parsed(R"("subnet": ")" + subnet + "\"").pool.sets[0][0].block_size;
  };
  CHECK(size("10.5.0.0/16") == 28);
  CHECK(size("fd00:5::/64") == 120);
  CHECK(size("10.5.0.0/29") == 29);
  CHECK(size("10.5.0.0/30") == 30);
  CHECK(size("fd00:5::/124") == 124);
}

TEST_CASE("conf: the short form comes before ranges, and has all their keys") {
  const Conf out = parsed(R"("subnet": "10.5.0.0/24", "rangeStart": "10.5.0.9",
      "rangeEnd": "10.5.0.99", "gateway": "10.5.0.254", "blockSize": 29,
      "exclude": ["10.5.0.10", "10.5.0.16/29"], "waitForBlock": 3,
      "ranges": [[{"subnet": "10.6.0.0/24"}, {"subnet": "10.7.0.0/24"}],
                 [{"subnet": "fd00:5::/64", "blockSize": 112}]])");
  REQUIRE(out.pool.sets.size() == 3);
  const blocks::Range& first = out.pool.sets[0][0];
  CHECK(first.start == *Ip::parse("10.5.0.9"));
  CHECK(first.end == *Ip::parse("10.5.0.99"));
  CHECK(first.gateway == *Ip::parse("10.5.0.254"));
  CHECK(first.block_size == 29);
  CHECK(first.exclude ==
        std::vector<Cidr>{*Cidr::parse("10.5.0.10/32"), *Cidr::parse("10.5.0.16/29")});
  CHECK(out.pool.sets[1].size() == 2);
  CHECK(out.pool.sets[2][0].block_size == 112);
  CHECK(out.leases.sets[1].str() == "10.6.0.1-10.6.0.254,10.7.0.1-10.7.0.254");
  CHECK(out.wait.count() == 3);
}

TEST_CASE("conf: what no block can be cut from is refused") {
  CHECK(refusal("") == "7 no IP ranges specified");
  CHECK(refusal(R"("subnet": "10.5.0.0/31")").find("too small to allocate from") !=
        std::string::npos);
  CHECK(refusal(R"("subnet": "10.5.0.1/24")").find("host bits set") != std::string::npos);
  CHECK(refusal(kSubnet + R"(, "blockSize": 15)").find("from 16") != std::string::npos);
  CHECK(refusal(kSubnet + R"(, "blockSize": 31)").find("to 30") != std::string::npos);
  CHECK(refusal(R"("subnet": "fd00::/64", "blockSize": 127)") != "");
  CHECK(refusal(R"("subnet": "fd00::/64", "blockSize": 126)") == "");
  CHECK(refusal(kSubnet + R"(, "exclude": ["10.5.0.0/17", "10.5.128.0/17"])")
            .find("all its addresses are excluded") != std::string::npos);
}

TEST_CASE("conf: ranges that share a block are refused, and those that end with one are not") {
  const auto two = [](const std::string& end, const std::string& start) {
    return R"("ranges": [[{"subnet": "10.5.0.0/24", "rangeEnd": ")" + end +
           R"("}], [{"subnet": "10.5.0.0/24", "rangeStart": ")" + start + "\"}]]";
  };
  CHECK(refusal(two("10.5.0.20", "10.5.0.21")).find("have a block in common") != std::string::npos);
  CHECK(refusal(two("10.5.0.31", "10.5.0.32")) == "");
  CHECK(refusal(R"("ranges": [[{"subnet": "10.5.0.0/24"}], [{"subnet": "10.5.0.0/23"}]])") != "");
}

TEST_CASE("conf: a pool has an end, so that ADD reads no more than it can") {
  std::string ranges;
  for (int i = 0; i < 65; ++i) {
    ranges += (i == 0 ? "" : ", ") + ("{\"subnet\": \"10.5." + std::to_string(i) + ".0/24\"}");
  }
  CHECK(refusal("\"ranges\": [[" + ranges + "]]").find("more than 64 ranges") != std::string::npos);
}

TEST_CASE("conf: a requested address must be one that some node can have") {
  CHECK(refusal(kSubnet, "IP=10.5.200.7") == "");
  CHECK(refusal(kSubnet, "IP=10.6.0.7") == "7 failed to allocate all requested IPs: 10.6.0.7");
  CHECK(refusal(kSubnet, "IP=10.5.0.1") == "7 requested ip 10.5.0.1 is subnet's gateway");
  CHECK(refusal(kSubnet + R"(, "exclude": ["10.5.9.0/24"])", "IP=10.5.9.7")
            .starts_with("7 failed to allocate"));
}

TEST_CASE("conf: a name of a network that is too long for the files of its blocks is refused") {
  const auto of = [](std::size_t size) {
    return error_of([&] {
      Conf::parse(request(R"({"cniVersion": "1.1.0", "name": ")" + std::string(size, 'n') +
                          R"(", "ipam": {)" + kSubnet + "}}"));
    });
  };
  CHECK(of(244).empty());
  CHECK(of(245).find("expected at most 244 bytes") != std::string::npos);
}

}  // namespace cluster_pool
