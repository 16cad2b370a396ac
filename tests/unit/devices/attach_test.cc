#include "plugins/devices/attach.h"

#include <doctest/doctest.h>

#include "netlink/types/ip.h"

using netlink::Cidr;

TEST_CASE("the addresses of a device keep their interface in the result of the chain") {
  cni::Result chain{.interfaces = {{.name = "cni0"}, {.name = "eth0", .sandbox = "/run/netns/c1"}},
                    .ips = {{.cidr = *Cidr::parse("10.1.2.9/24"), .interface = 1}},
                    .dns = {.nameservers = {"10.1.2.53"}}};
  const cni::Result device{.interfaces = {{.name = "net1", .sandbox = "/run/netns/c1"}},
                           .ips = {{.cidr = *Cidr::parse("10.50.0.2/24"), .interface = 0},
                                   {.cidr = *Cidr::parse("10.50.0.3/24")}},
                           .routes = {{.dst = *Cidr::parse("10.9.0.0/16")}},
                           .dns = {.nameservers = {"10.50.0.53"}}};
  devices::append(chain, device);
  REQUIRE(chain.interfaces.size() == 3);
  CHECK(chain.interfaces[2].name == "net1");
  REQUIRE(chain.ips.size() == 3);
  CHECK(chain.ips[0].interface == 1);
  CHECK(chain.ips[1].interface == 2);
  CHECK_FALSE(chain.ips[2].interface);
  CHECK(chain.routes.size() == 1);
  CHECK(chain.dns.nameservers == std::vector<std::string>{"10.1.2.53"});
}
