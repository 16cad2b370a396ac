#include "plugins/firewall/conf.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "libcni/common/error.h"

using firewall::attachment_of;
using firewall::Backend;
using firewall::Conf;
using firewall::Policy;

namespace {

cni::Request request_with(const nlohmann::json& more) {
  cni::Request request;
  request.network = "net1";
  request.container_id = "c1";
  request.ifname = "eth0";
  nlohmann::json conf{{"type", "firewall"}, {"name", "net1"}};
  conf.update(more);
  request.conf = conf;
  return request;
}

std::string refusal(const nlohmann::json& more) try {
  Conf::parse(request_with(more));
  return "";
} catch (const cni::Error& e) {
  CHECK(e.code() == cni::Code::kInvalidConfig);
  return e.what();
}

cni::Result result() {
  cni::Result out;
  out.interfaces = {
      {.name = "cni0"}, {.name = "veth1"}, {.name = "eth0", .sandbox = "/run/netns/x"}};
  for (const char* const text : {"10.1.0.2/24", "fd00::2/64", "10.1.0.2/16"}) {
    out.ips.push_back({.cidr = *netlink::Cidr::parse(text)});
  }
  return out;
}

}  // namespace

TEST_CASE("what is not said has the reference plugin's default") {
  for (const nlohmann::json& more :
       {nlohmann::json::object(), nlohmann::json{{"backend", ""},
                                                 {"ingressPolicy", ""},
                                                 {"iptablesAdminChainName", ""},
                                                 {"firewalldZone", ""}}}) {
    const Conf conf = Conf::parse(request_with(more));
    CHECK_FALSE(conf.backend.has_value());
    CHECK(conf.policy == Policy::kOpen);
    CHECK(conf.admin_chain == "CNI-ADMIN");
    CHECK(conf.zone == "trusted");
  }
}

TEST_CASE("all keys are read") {
  const Conf conf = Conf::parse(request_with({{"backend", "firewalld"},
                                              {"ingressPolicy", "isolated"},
                                              {"iptablesAdminChainName", "SITE"},
                                              {"firewalldZone", "internal"}}));
  CHECK(conf.backend == Backend::kFirewalld);
  CHECK(conf.policy == Policy::kIsolated);
  CHECK(conf.admin_chain == "SITE");
  CHECK(conf.zone == "internal");
}

TEST_CASE("wrong values are refused with their place") {
  CHECK(refusal({{"ingressPolicy", "x"}}) == "unknown ingress policy: \"x\"");
  CHECK(refusal({{"backend", "ufw"}}) == "backend: unknown firewall backend: \"ufw\"");
  for (const char* const chain : {"FORWARD", "CNI-FORWARD", "-x", "a b", "a\nb", "\"", "1a",
                                  "ACCEPT", "isolation", "a234567890123456789012345678x"}) {
    CHECK_MESSAGE(refusal({{"iptablesAdminChainName", chain}}) != "", chain);
  }
  CHECK(refusal({{"iptablesAdminChainName", "A-b_c.d/e"}}) == "");
  CHECK(refusal({{"firewalldZone", "a b"}}) != "");
}

TEST_CASE("a config that ADD refuses does not keep DEL from its work") {
  CHECK(Conf::readable(request_with({{"ingressPolicy", "x"}})).zone == "trusted");
}

TEST_CASE("the attachment has every address once, the bridge, and the other links of the node") {
  const auto attachment = attachment_of(request_with(nlohmann::json::object()), result());
  CHECK(attachment.addresses.size() == 2);
  CHECK(attachment.link == "cni0");
  CHECK(attachment.host_links == std::vector<std::string>{"veth1"});
  CHECK(attachment_of(request_with(nlohmann::json::object()), std::nullopt).addresses.empty());
}

TEST_CASE("a policy needs a link of the node") {
  Conf conf;
  conf.policy = Policy::kSameBridge;
  CHECK_NOTHROW(firewall::require_link(conf, result()));
  cni::Result pods = result();
  pods.interfaces.erase(pods.interfaces.begin(), pods.interfaces.begin() + 2);
  CHECK_THROWS_WITH_AS(
      firewall::require_link(conf, pods),
      "interface needs to be set for ingress policy \"same-bridge\", make sure to chain "
      "\"firewall\" plugin with \"bridge\"",
      cni::Error);
  cni::Result nameless = result();
  nameless.interfaces[0].name = "";
  CHECK_THROWS_WITH_AS(firewall::require_link(conf, nameless), "got empty bridge name", cni::Error);
  nameless.interfaces[0].name = "sixteen-letters-";
  CHECK_THROWS_AS(firewall::require_link(conf, nameless), cni::Error);
  conf.policy = Policy::kOpen;
  CHECK_NOTHROW(firewall::require_link(conf, pods));
}
