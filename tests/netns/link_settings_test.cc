// In a network namespace of its own: what a link keeps when it moves to another one.
#include "netlink/route/link_settings.h"

#include <net/if.h>

#include "tests/netns/node.h"

using namespace netlink;

TEST_CASE("settings of a link are read, changed and changed back") {
  const node::Fresh fresh;
  REQUIRE(node::run("ip link add up0 type veth peer name out0"));
  RouteSocket host;
  const Link link = host.get("up0");
  const LinkSettings before = settings_of(host, link);
  REQUIRE(
      node::run("ip link set up0 arp off && ip link set up0 allmulticast on group 7 mode dormant &&"
                "ip link set up0 txqueuelen 5 gso_max_size 5000 gso_max_segs 5"));
  const LinkSettings changed = settings_of(host, link);
  CHECK((changed.flags ^ before.flags) == (IFF_NOARP | IFF_ALLMULTI));
  CHECK(changed.group == 7);
  CHECK(changed.tx_queue_length == 5);
  CHECK(changed.gso_max_size == 5000);
  CHECK(changed.gso_max_segments == 5);
  CHECK(changed.mode == 1);
  host.send(change_settings(link, changed, before));
  CHECK(settings_of(host, link) == before);
  CHECK(change_settings(link, before, before).empty());
  host.send(add_altname(link, "another-name-of-the-link"));
  CHECK(host.get("another-name-of-the-link").index == link.index);
  host.send(remove_altname(link, "another-name-of-the-link"));
  CHECK_FALSE(host.find("another-name-of-the-link"));
  host.send(remove_altname(link, "another-name-of-the-link"));
}

TEST_CASE("a link tells hundreds of alternative names") {
  const node::Fresh fresh;
  REQUIRE(node::run("ip link add up0 type veth peer name out0"));
  std::string batch;
  for (int i = 100; i < 500; ++i) {
    batch += cat("link property add dev up0 altname ", std::string(120, 'n'), i, "\\n");
  }
  REQUIRE(node::run(cat("printf '", batch, "' | ip -batch -")));
  RouteSocket host;
  CHECK(settings_of(host, host.get("up0")).altnames.size() == 400);
}

static const node::TestFile kTests(__FILE__, [](doctest::Context&) {
  return node::unless("ip link show >/dev/null");
});
