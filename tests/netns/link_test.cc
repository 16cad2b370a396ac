// In a network namespace of its own: links on a parent, wherever that is. Needs root; exits with 77
// where it may not unshare. Kinds that the running kernel lacks are passed over, with a line that
// says so.
#include "netlink/route/link.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <set>
#include <thread>

#include "netlink/route/socket.h"
#include "tests/netns/node.h"

using namespace netlink;

namespace {

// A node with the link up0, and a pod.
struct Node : node::Fresh {
  Node() {
    REQUIRE(
        node::run("ip link set lo up && ip link add up0 type veth peer name out0 &&"
                  "ip link set up0 up && ip link set out0 up"));
    parent = host.get("up0").index;
  }
  NetNs pod_ns = NetNs::create();
  RouteSocket host, pod{pod_ns};
  int parent = 0;
};

// As the kernel shows what was created in the pod on the node's link.
LinkData created(Node& node, const std::string& kind, const LinkData& data) {
  node.pod.send(add(NewLink{.kind = kind,
                            .name = "eth0",
                            .parent = node.parent,
                            .parent_nsid = node.pod.ensure_nsid(NetNs::current()),
                            .data = data}));
  const Link link = node.pod.get("eth0");
  CHECK(link.kind == kind);
  CHECK(link.parent_index == node.parent);
  CHECK(link.parent_nsid == node.pod.nsid(NetNs::current()));
  CHECK_FALSE(link.up);
  node.pod.send(remove_link(link));
  return link.data;
}

bool lacks(RouteSocket& socket, const char* kind) {
  if (socket.knows_kind(kind)) return false;
  std::fprintf(stderr, "SKIP part of link: this kernel has no links of kind %s\n", kind);
  return true;
}

}  // namespace

TEST_CASE("a macvlan is created in the pod on a link of the node, in every mode") {
  Node node;
  if (lacks(node.host, "macvlan")) return;
  using enum Macvlan::Mode;
  for (const auto mode : {kPrivate, kVepa, kBridge, kPassthru}) {
    const Macvlan wanted{.mode = mode, .broadcast_queue = 2000};
    const LinkData seen = created(node, "macvlan", wanted);
    CHECK(seen == LinkData(wanted));
  }
  const Mac sender = Mac::parse("02:00:00:00:00:07").value();
  const LinkData source = created(node, "macvlan", Macvlan{.mode = kSource, .allowed = {sender}});
  CHECK(std::get<Macvlan>(source).allowed == std::vector<Mac>{sender});
}

TEST_CASE("an ipvlan is created in the pod on a link of the node, in every mode") {
  Node node;
  if (lacks(node.host, "ipvlan")) return;
  for (const auto mode : {Ipvlan::Mode::kL2, Ipvlan::Mode::kL3, Ipvlan::Mode::kL3s}) {
    const Ipvlan wanted{.mode = mode, .isolation = Ipvlan::Isolation::kPrivate};
    CHECK(created(node, "ipvlan", wanted) == LinkData(wanted));
  }
}

TEST_CASE("a VLAN is created in the pod on a link of the node, with protocol and priorities") {
  Node node;
  if (lacks(node.host, "vlan")) return;
  CHECK(created(node, "vlan", Vlan{.id = 5}) == LinkData(Vlan{.id = 5}));
  const Vlan wanted{.id = 4094, .protocol = Vlan::k8021ad, .egress = {{6, 7}}, .ingress = {{5, 3}}};
  CHECK(created(node, "vlan", wanted) == LinkData(wanted));
}

TEST_CASE("a second VLAN with one ID is refused with the kernel's sentence") {
  Node node;
  if (lacks(node.host, "vlan")) return;
  NewLink spec{.kind = "vlan",
               .name = "eth0",
               .parent = node.parent,
               .parent_nsid = node.pod.ensure_nsid(NetNs::current()),
               .data = Vlan{.id = 5}};
  node.pod.send(add(spec));
  spec.name = "eth1";
  const auto refusal = node.pod.attempt(add(spec));
  REQUIRE(refusal);
  CHECK(refusal->error() == EEXIST);
  CHECK(refusal->kernel_text().find("VLAN device already exists") != std::string::npos);
}

TEST_CASE("a namespace gets a number once, and keeps it") {
  const Node node;
  RouteSocket socket;
  const NetNs other = NetNs::create();
  CHECK_FALSE(socket.nsid(other));
  const int id = socket.ensure_nsid(other);
  CHECK(socket.ensure_nsid(other) == id);
  CHECK(socket.nsid(other) == id);
  CHECK(RouteSocket().ensure_nsid(other) == id);
  CHECK(socket.ensure_nsid(NetNs::create()) != id);
  CHECK(RouteSocket(other).ensure_nsid(NetNs::current()) >= 0);
}

TEST_CASE("a link is renamed while it is down") {
  Node node;
  node.host.send(set_link(node.host.get("up0"), {.up = false}));
  node.host.send(set_link(node.host.get("up0"), {.name = "down0"}));
  CHECK(node.host.get("down0").index == node.parent);
  CHECK_FALSE(node.host.find("up0"));
}

TEST_CASE("an alternative name that is too long for a name is found, and another one is not") {
  Node node;
  REQUIRE(node::run("ip link property add dev up0 altname a-name-of-more-than-15-bytes"));
  CHECK(node.host.get("a-name-of-more-than-15-bytes").index == node.parent);
  CHECK_FALSE(node.host.find("another-one-of-more-than-15-bytes"));
}

TEST_CASE("a link with hundreds of alternative names is found and listed") {
  Node node;
  std::string batch;
  for (int i = 100; i < 500; ++i) {
    batch += cat("link property add dev up0 altname ", std::string(120, 'n'), i, "\\n");
  }
  REQUIRE(node::run(cat("printf '", batch, "' | ip -batch -")));
  CHECK(node.host.find(node.parent)->name == "up0");
  CHECK(node.host.find("up0")->index == node.parent);
  CHECK(node.host.links().size() == 3);
  CHECK(RouteSocket().links_of_kind("veth").size() == 2);
}

TEST_CASE("links are listed while others come and go without end") {
  Node node;
  constexpr int kPairs = 100;
  std::string batch;
  for (int i = 0; i < kPairs; ++i) {
    batch += cat("link add a", i, " type veth peer name b", i, "\\n");
  }
  REQUIRE(node::run(cat("printf '", batch, "' | ip -batch -")));
  std::atomic<bool> over = false;
  const auto churn = [&over](const std::string& name) {
    RouteSocket socket;
    while (!over) {
      socket.send(add(NewLink{.kind = "bridge", .name = name}));
      socket.send(remove_link(socket.get(name)));
    }
  };
  std::thread one(churn, "one"), two(churn, "two");
  std::size_t least = 2 * kPairs;
  bool twice = false;
  std::string failure;
  for (int round = 0; round < 3 && failure.empty(); ++round) {
    try {
      std::set<int> indexes;
      std::size_t veths = 0;
      for (const Link& link : node.host.links()) {
        twice = twice || !indexes.insert(link.index).second;
        veths += link.kind == "veth" && link.name != "up0" && link.name != "out0" ? 1U : 0U;
      }
      least = std::min({least, veths, node.host.links_of_kind("veth").size() - 2});
    } catch (const Error& e) {
      failure = e.what();
    }
  }
  over = true;
  one.join();
  two.join();
  CHECK(failure == "");
  CHECK(least == 2 * kPairs);
  CHECK_FALSE(twice);
}

TEST_CASE("a tap is read with its owner") {
  const Node node;
  RouteSocket socket;
  if (!node::run("ip tuntap add tap0 mode tap user 107 vnet_hdr multi_queue 2>/dev/null")) {
    std::fprintf(stderr, "SKIP part of link: needs /dev/net/tun\n");
    return;
  }
  const Link link = socket.get("tap0");
  REQUIRE(std::holds_alternative<Tun>(link.data));
  const Tun wanted{
      .tap = true, .vnet_header = true, .multi_queue = true, .persistent = true, .owner = 107};
  CHECK(link.data == LinkData(wanted));
}

static const node::TestFile kTests(__FILE__, [](doctest::Context&) {
  return node::unless("ip link show >/dev/null");
});
