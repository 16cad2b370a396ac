#include "libcni/config/subnet_env.h"

#include <doctest/doctest.h>

#include "libcni/common/error.h"

namespace {

using cni::SubnetEnv;

SubnetEnv parse(std::string_view text) { return SubnetEnv::parse(text, "/s.env"); }

std::string failure(std::string_view text) {
  try {
    parse(text);
  } catch (const cni::Error& e) {
    return cni::cat(e.what(), " | ", e.details());
  }
  return {};
}

std::string str(const std::vector<netlink::Cidr>& list) {
  std::string out;
  for (const auto& one : list) out += one.str() + ' ';
  return out;
}

TEST_CASE("all six keys of subnet.env, as flanneld writes them") {
  const auto env = parse(
      "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\n"
      "FLANNEL_IPV6_NETWORK=fd00:244::/56\nFLANNEL_IPV6_SUBNET=fd00:244:0:1::1/64\n"
      "FLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n");
  CHECK(str(env.networks) == "10.244.0.0/16 ");
  CHECK(str(env.ipv6_networks) == "fd00:244::/56 ");
  CHECK(env.subnet->str() == "10.244.1.1/24");
  CHECK(env.ipv6_subnet->str() == "fd00:244:0:1::1/64");
  CHECK(env.mtu == 1450);
  CHECK(env.ip_masq == true);
  CHECK(env.missing().empty());
}

TEST_CASE("networks of subnet.env are masked, and an equal one is dropped") {
  CHECK(str(parse("FLANNEL_NETWORK=10.1.0.0/16,192.168.5.5/16,10.1.7.7/16").networks) ==
        "10.1.0.0/16 192.168.0.0/16 ");
}

TEST_CASE("subnet.env may have CR, blanks, quotes, export, comments and other keys") {
  const auto env = parse(
      "# FLANNEL_MTU=1\r\n\n  export FLANNEL_NETWORK = \"10.1.0.0/16 , 10.2.0.0/16\" \r\n"
      "FLANNEL_SUBNET='10.1.1.1/24'\r\nFOO=bar\nbaz\nFLANNEL_MTU=9\nFLANNEL_MTU=1400 \n"
      "exportFLANNEL_MTU=3\nFLANNEL_IPMASQ=True");
  CHECK(str(env.networks) == "10.1.0.0/16 10.2.0.0/16 ");
  CHECK(env.subnet->str() == "10.1.1.1/24");
  CHECK(env.mtu == 1400);
  CHECK(env.ip_masq == false);
}

TEST_CASE("missing keys of subnet.env are in flannel's order, families in pairs") {
  CHECK(parse("foo=bar").missing() ==
        std::vector<std::string_view>{"FLANNEL_NETWORK", "FLANNEL_IPV6_NETWORK", "FLANNEL_SUBNET",
                                      "FLANNEL_IPV6_SUBNET", "FLANNEL_MTU", "FLANNEL_IPMASQ"});
  CHECK(parse("FLANNEL_IPV6_NETWORK=fd00::/48\nFLANNEL_IPV6_SUBNET=fd00::1/64\nFLANNEL_MTU=0")
            .missing() == std::vector<std::string_view>{"FLANNEL_IPMASQ"});
}

TEST_CASE("an error in subnet.env names file, line and key") {
  CHECK(failure("\nFLANNEL_SUBNET=10.1.1.1") ==
        "invalid CIDR address: 10.1.1.1 | /s.env:2: FLANNEL_SUBNET: expected IPv4, for example "
        "10.244.1.1/24");
  CHECK(failure("FLANNEL_NETWORK=10.1.0.0/16,") ==
        "invalid CIDR address:  | /s.env:1: FLANNEL_NETWORK: expected IPv4, for example "
        "10.244.1.1/24");
  CHECK(
      failure("FLANNEL_IPV6_SUBNET=10.1.1.1/24").starts_with("invalid CIDR address: 10.1.1.1/24"));
  CHECK(failure("FLANNEL_SUBNET=fd00::1/64").starts_with("invalid CIDR address: fd00::1/64"));
  CHECK(
      failure("FLANNEL_MTU=x") ==
      "strconv.ParseUint: parsing \"x\": invalid syntax | /s.env:1: FLANNEL_MTU: expected an MTU, "
      "for example 1450");
  CHECK(failure("FLANNEL_MTU=4294967296").find("value out of range") != std::string::npos);
  CHECK(failure("FLANNEL_MTU=-1").find("invalid syntax") != std::string::npos);
  CHECK(failure("FLANNEL_IPMASQ") ==
        "no '=' after FLANNEL_IPMASQ | /s.env:1: FLANNEL_IPMASQ: expected KEY=VALUE");
}

TEST_CASE("a very long line of subnet.env, and one without a newline at the end") {
  std::string text = "FLANNEL_NETWORK=10.0.0.0/16";
  for (int i = 0; i < 100000; ++i) text += ",10.0.0.0/16";
  CHECK(str(parse(text).networks) == "10.0.0.0/16 ");
  CHECK(parse("X=" + std::string(1 << 20, 'y') + "\nFLANNEL_MTU=7").mtu == 7);
}

TEST_CASE("a subnet.env that does not exist is none") {
  CHECK_FALSE(SubnetEnv::read("/nonexistent/subnet.env"));
  CHECK_THROWS_AS(SubnetEnv::read("/"), netlink::Error);
}

}  // namespace
