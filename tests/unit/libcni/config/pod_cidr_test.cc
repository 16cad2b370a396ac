#include "libcni/config/pod_cidr.h"

#include <doctest/doctest.h>

#include <fstream>

#include "libcni/common/error.h"
#include "tests/unit/surroundings.h"

namespace {

using cni::Code;
using netlink::Family;

struct Answer {
  std::string text;
  std::optional<Code> code = {};
};

Answer ask(const std::string& content, Family family) {
  const surroundings::Folder dir;
  std::ofstream(dir.file("f"), std::ios::binary) << content;
  try {
    return {cni::pod_cidr_in(dir.file("f"), family).str()};
  } catch (const cni::Error& e) {
    return {cni::cat(e.what(), " ", e.details()), e.code()};
  }
}

TEST_CASE("the two words of Calico's list stand for a family") {
  CHECK(cni::pod_cidr_family("usePodCidr") == Family::kIpv4);
  CHECK(cni::pod_cidr_family("usePodCidrIPv6") == Family::kIpv6);
  CHECK_FALSE(cni::pod_cidr_family("usePodCIDR"));
  CHECK_FALSE(cni::pod_cidr_family("10.1.0.0/24"));
}

TEST_CASE("pod CIDRs are read from subnet.env and from a list") {
  const std::string env =
      "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_IPV6_SUBNET=fd00:1::1/"
      "64\n";
  CHECK(ask(env, Family::kIpv4).text == "10.244.1.0/24");
  CHECK(ask(env, Family::kIpv6).text == "fd00:1::/64");
  const std::string list = "# of this node\r\n10.1.2.0/24\r\n\n  fd00:2::/64 # IPv6\n";
  CHECK(ask(list, Family::kIpv4).text == "10.1.2.0/24");
  CHECK(ask(list, Family::kIpv6).text == "fd00:2::/64");
}

TEST_CASE("a pod CIDR that is not known yet is asked for again") {
  CHECK(ask("", Family::kIpv4).code == Code::kTryAgainLater);
  CHECK(ask("10.1.2.0/24", Family::kIpv6).code == Code::kTryAgainLater);
  CHECK(ask("FLANNEL_MTU=1450", Family::kIpv4).code == Code::kTryAgainLater);
  CHECK_THROWS_AS(cni::pod_cidr_in("/nonexistent/f", Family::kIpv4), cni::Error);
}

TEST_CASE("a file of pod CIDRs with other text, or with two of a family, is refused") {
  for (const char* const wrong : {"10.1.2.0", "10.1.2.0/33", "10.1.2.0/24\n10.1.3.0/24",
                                  "FLANNEL_SUBNET=x", "10.1.2.0/24,fd00::/64"}) {
    CHECK(ask(wrong, Family::kIpv4).code == Code::kInvalidConfig);
  }
  CHECK(ask("10.1.2.0/24 10.1.3.0/24", Family::kIpv4).text.find("10.1.2.0/24 and 10.1.3.0/24") !=
        std::string::npos);
}

}  // namespace
