#include "plugins/host-local/conf.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/defaults.h"
#include "tests/unit/leases/fixture.h"

namespace host_local {

using namespace leases;

using leases::test::error_of;
using leases::test::request;

namespace {

std::string conf(const std::string& ipam, const std::string& rest = "",
                 const std::string& version = "1.1.0") {
  return R"({"cniVersion": ")" + version + R"(", "name": "net", )" + rest + R"("ipam": {)" + ipam +
         "}}";
}

std::string sets_of(const std::string& text) {
  std::string out;
  for (const RangeSet& set : parse(request(text)).sets) out += set.str() + " ";
  return out;
}

std::string refusal(const std::string& text, const std::string& args = "") {
  return error_of([&] { parse(request(text, "ctr", args)); });
}

std::string requested_of(const std::string& text, const std::string& args = "") {
  std::string out;
  for (const Ip& ip : parse(request(text, "ctr", args)).requested) out += ip.str() + " ";
  return out;
}

const std::string kSubnet = R"("subnet": "10.1.2.0/24")";

}  // namespace

TEST_CASE("conf: what the table calls the default is what holds without the key") {
  auto with = request(conf(kSubnet));
  with.conf = with_defaults(with.conf, kManual);
  CHECK(with.conf->at("ipam").contains("dataDir"));
  CHECK(parse(with).data_dir == parse(request(conf(kSubnet))).data_dir);
}

TEST_CASE("conf: the old style is a set of one range") {
  const auto c = parse(request(conf(
      kSubnet + R"(, "rangeStart": "10.1.2.9", "rangeEnd": "10.1.2.20", "gateway": "10.1.2.30")")));
  REQUIRE(c.sets.size() == 1);
  CHECK(c.sets[0].str() == "10.1.2.9-10.1.2.20");
  CHECK(c.sets[0].ranges[0].gateway == leases::test::ip("10.1.2.30"));
  CHECK(c.data_dir == "/var/lib/cni/networks");
}

TEST_CASE("conf: the new style has sets of ranges with defaults, routes and a data directory") {
  const auto c = parse(request(conf(
      R"("ranges": [[{"subnet": "10.1.2.0/24", "rangeStart": "10.1.2.9", "rangeEnd": "10.1.2.20"},
          {"subnet": "10.1.4.0/24"}], [{"subnet": "11.1.2.0/24"}]],
         "routes": [{"dst": "0.0.0.0/0"}, {"dst": "192.168.0.0/16", "gw": "10.10.5.1"}],
         "dataDir": "/d", "resolvConf": "/r")")));
  REQUIRE(c.sets.size() == 2);
  CHECK(c.sets[0].str() == "10.1.2.9-10.1.2.20,10.1.4.1-10.1.4.254");
  CHECK(c.routes.size() == 2);
  CHECK(c.data_dir == "/d");
  CHECK(c.resolv_conf == "/r");
}

TEST_CASE("conf: runtime ranges come first, then the old style, then the list") {
  CHECK(sets_of(
            conf(kSubnet + R"(, "ranges": [[{"subnet": "10.3.0.0/30"}]])",
                 R"("RuntimeConfig": {"what": 1, "ipRanges": [[{"subnet": "10.4.0.0/30"}]]},)")) ==
        "10.4.0.1-10.4.0.2 10.1.2.1-10.1.2.254 10.3.0.1-10.3.0.2 ");
}

TEST_CASE("conf: without a subnet the other old-style keys are passed over") {
  CHECK(sets_of(conf(R"("rangeStart": "1.2.3.4", "ranges": [[{"subnet": "10.3.0.0/30"}]])")) ==
        "10.3.0.1-10.3.0.2 ");
}

TEST_CASE("conf: requested addresses accumulate in order, without twins and prefix lengths") {
  const std::string rest = R"("args": {"cni": {"ips": ["10.1.2.11", "10.1.2.12/16", "10.1.2.10"]}},
      "runtimeConfig": {"ips": ["192.168.0.1", "2001:db8::1/64"]},)";
  CHECK(requested_of(conf(kSubnet, rest), "IP=10.1.2.10/24;IgnoreUnknown=1;K8S_POD_NAME=p") ==
        "10.1.2.10 10.1.2.11 10.1.2.12 192.168.0.1 2001:db8::1 ");
  CHECK(requested_of(conf(kSubnet), "IP=10.1.2.10") == "10.1.2.10 ");
  CHECK(requested_of(conf(kSubnet), "IP=") == "");
}

TEST_CASE("conf: wrong requests name their place") {
  CHECK(refusal(conf(kSubnet), "IP=10.1") ==
        "4 ARGS: error parsing value of pair \"IP=10.1\": invalid IP address 10.1");
  CHECK(refusal(conf(kSubnet, R"("args": {"cni": {"ips": ["10.1.2.3", ""]}},)")) ==
        "7 args.cni.ips[1]: not an IP address: \"\"");
  CHECK(refusal(conf(kSubnet, R"("runtimeConfig": {"ips": [null]},)"))
            .starts_with("7 runtimeConfig.ips[0]: expected a string"));
}

TEST_CASE("conf: what is missing or invalid is refused with the reference's words and the place") {
  CHECK(refusal(R"({"cniVersion": "1.1.0", "name": "net"})") == "7 IPAM config missing 'ipam' key");
  CHECK(refusal(conf(R"("type": "host-local")")) == "7 no IP ranges specified");
  CHECK(refusal(conf(R"("ranges": [[{"subnet": "10.1.2.0/24"}], []])")) ==
        "7 invalid range set 1: empty range set");
  CHECK(refusal(conf(R"("ranges": [[{"subnet": "10.1.2.0/31"}]])")) ==
        "7 invalid range set 0: Network 10.1.2.0/31 too small to allocate from");
  CHECK(refusal(conf(R"("ranges": [[{"subnet": "10.1"}]])"))
            .starts_with("7 invalid range set 0: ipam.ranges[0][0].subnet: "));
  CHECK(refusal(conf(R"("ranges": [[{"subnet": "::ffff:10.1.2.0/120"}]])"))
            .find("IPNet IP and Mask version mismatch") != std::string::npos);
  CHECK(refusal(conf(R"("subnet": "10.1.2.0/24", "rangeEnd": "10.1.3.1")")) ==
        "7 invalid range set 0: RangeEnd 10.1.3.1 not in network 10.1.2.0/24");
}

TEST_CASE("conf: null in the lists is an error, not a crash") {
  for (const char* ranges : {"[null]", "[[null]]", "[[{}]]", "[{}]", "{}", "[[3]]", "3"}) {
    CHECK(refusal(conf(R"("ranges": )" + std::string(ranges))).starts_with("7 "));
  }
  CHECK(refusal(conf(kSubnet + R"(, "routes": [null])")).starts_with("7 ipam.routes[0]"));
}

TEST_CASE("conf: overlap within a set, between sets, and mixed families are refused") {
  CHECK(refusal(conf(R"("ranges": [[{"subnet": "10.1.2.0/24"}, {"subnet": "10.1.2.0/25"}]])")) ==
        "7 invalid range set 0: subnets 10.1.2.1-10.1.2.254 and 10.1.2.1-10.1.2.126 overlap");
  CHECK(refusal(conf(R"("ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "10.1.0.0/22"}]])")) ==
        "7 range set 0 overlaps with 1");
  CHECK(refusal(conf(R"("ranges": [[{"subnet": "10.1.2.0/24"}, {"subnet": "2001:db8::/64"}]])")) ==
        "7 invalid range set 0: mixed address families");
}

TEST_CASE("conf: versions before 0.3.0 have one address of each family") {
  const std::string two = R"("ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "10.1.3.0/24"}]])";
  const std::string both =
      R"("ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "2001:db8:1::/48"}]])";
  CHECK(refusal(conf(two, "", "0.2.0")) ==
        "7 CNI version 0.2.0 does not support more than 1 address per family");
  CHECK(refusal(conf(two, "", "0.3.0")) == "");
  CHECK(refusal(conf(both, "", "0.2.0")) == "");
}

TEST_CASE("resolv.conf: indentation, comments and unknown keywords are passed over") {
  const cni::Dns dns = parse_resolv_conf(
      "# a\n; b\n  nameserver 192.0.2.0 x\r\n\nnameserver\t192.0.2.1\nnameserver\nsortlist 1\n"
      "domain one.test\ndomain two.test\nsearch a b\nsearch c\noptions ndots:2 rotate\noptions x");
  CHECK(dns.nameservers == std::vector<std::string>{"192.0.2.0", "192.0.2.1"});
  CHECK(dns.domain == "two.test");
  CHECK(dns.search == std::vector<std::string>{"a", "b", "c"});
  CHECK(dns.options == std::vector<std::string>{"ndots:2", "rotate", "x"});
  CHECK(parse_resolv_conf("").empty());
}

}  // namespace host_local
