// In a network namespace of its own: filters are what tc(8) shows, and packets go where they say.
// Needs root; exits with 77 where it may not unshare.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <sys/syscall.h>

#include <cerrno>

#include "netlink/tc/filter.h"
#include "netlink/tc/list.h"
#include "tests/netns/tc.h"

using namespace netlink;
using nlohmann::json;
using tc_test::Node;
using tc_test::refusal;
using tc_test::send;
using tc_test::shown;

namespace {

const tc::Qdisc kIngressQdisc{tc::kHook, tc::kHookHandle, tc::Ingress{}};
const tc::Qdisc kClsactQdisc{tc::kHook, tc::kHookHandle, tc::Clsact{}};

/// The options of all filters of a parent.
std::vector<json> filters_of(const std::string& parent) {
  std::vector<json> out;
  for (const json& filter : shown("filter show dev v " + parent)) {
    if (filter.contains("options") && !filter["options"].contains("ht_divisor")) {
      out.push_back(filter);
    }
  }
  return out;
}

/// "redirect egress i", "redirect egress i; redirect egress i"; "none" without a filter.
std::string targets(const std::string& parent) {
  std::string out;
  for (const json& filter : filters_of(parent)) {
    for (const json& action : filter["options"].value("actions", json::array())) {
      out += (out.empty() ? "" : "; ") + action["mirred_action"].get<std::string>() + " " +
             action["direction"].get<std::string>() + " " + action["to_dev"].get<std::string>();
    }
  }
  return out.empty() ? "none" : out;
}

/// Packets that a link sent.
int sent(const std::string& link) {
  return tc_test::parsed("ip -j -s link show " + link)[0]["stats64"]["tx"]["packets"];
}

/// A packet that goes out of a link. The neighbour is made up: nobody answers.
void speak(const std::string& link, const std::string& to) {
  const std::string family = to.find(':') == std::string::npos ? "-4" : "-6";
  REQUIRE(node::run("ip " + family + " route replace " + to + " dev " + link +
                    " && ip neigh replace " + to + " lladdr 02:00:00:00:00:99 dev " + link +
                    " && ! ping -c1 -W0.05 " + to + " >/dev/null 2>&1"));
}

struct Speaking : Node {
  Speaking() {
    REQUIRE(node::run(
        "ip addr add 10.1.0.1/24 dev v && ip addr add 10.1.1.1/24 dev w && "
        "ip -6 addr add fd01::1/64 dev v nodad && ip -6 addr add fd02::1/64 dev w nodad"));
  }
};

/// A program that answers the same thing to every packet.
Fd program(int verdict) {
  const bpf_insn code[] = {
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = verdict},
      {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
  bpf_attr attributes{};
  attributes.prog_type = BPF_PROG_TYPE_SCHED_CLS;
  attributes.insns = reinterpret_cast<std::uintptr_t>(code);
  attributes.insn_cnt = 2;
  attributes.license = reinterpret_cast<std::uintptr_t>("GPL");
  const long fd = ::syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof attributes);
  REQUIRE(fd >= 0);
  return Fd(static_cast<int>(fd));
}

}  // namespace

TEST_CASE("a redirect leads to another link, and is changed in place") {
  const Speaking node;
  REQUIRE(node::run("ip link add name j type ifb && ip link set j up"));
  RouteSocket socket;
  const Link v = socket.get("v"), i = socket.get("i"), j = socket.get("j");
  const tc::Redirect to_i{.to_link = i.index}, to_j{.to_link = j.index};
  send(socket, add(v, kIngressQdisc), add(v, to_i));
  CHECK(refusal([&] { socket.send(add(v, to_i)); }) == EEXIST);
  CHECK(targets("parent ffff:") == "redirect egress i");
  const json filter = filters_of("parent ffff:")[0];
  CHECK(filter["protocol"] == "all");
  CHECK(filter["pref"] == 1);
  CHECK(filter["options"]["fh"] == "800::cb");
  CHECK(filter["options"]["actions"][0]["control_action"]["type"] == "stolen");
  const int before = sent("i");
  speak("w", "10.1.1.2");
  CHECK(sent("i") > before);
  socket.send(replace(v, to_j));
  CHECK(targets("parent ffff:") == "redirect egress j");
  const int i_before = sent("i"), j_before = sent("j");
  speak("w", "fd02::2");
  CHECK(sent("i") == i_before);
  CHECK(sent("j") > j_before);
  const auto seen = tc::filters(socket, v, tc::kIngress);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].link == v.index);
  CHECK(seen[0].kind == "u32");
  CHECK(seen[0].priority == 1);
  CHECK(seen[0].handle == tc::kOwnU32);
  CHECK(seen[0].redirects_all_to(j.index));
  CHECK_FALSE(seen[0].redirects_all_to(i.index));
}

TEST_CASE("a replacement is made where there is nothing, and without a link to lead to refused") {
  const Node node;
  RouteSocket socket;
  const Link v = socket.get("v");
  const tc::Redirect to_i{.to_link = socket.get("i").index};
  CHECK(refusal([&] { socket.send(replace(v, to_i)); }) == EINVAL);  // no qdisc
  send(socket, replace(v, kClsactQdisc), replace(v, to_i), replace(v, to_i));
  CHECK(targets("ingress") == "redirect egress i");
  CHECK(refusal([&] { socket.send(replace(v, tc::Redirect{.to_link = 4711})); }) == ENODEV);
  CHECK(targets("ingress") == "redirect egress i");
}

TEST_CASE("filters of a priority are removed, and their absence is no error") {
  const Node node;
  RouteSocket socket;
  const Link v = socket.get("v");
  const tc::FilterGroup all{}, second{.priority = 2};
  send(socket, remove(v, all), remove(v, second));
  send(socket, add(v, kIngressQdisc), remove(v, all), remove(v, second),
       add(v, tc::Redirect{.to_link = socket.get("i").index}));
  REQUIRE(
      node::run("tc filter add dev v ingress pref 2 u32 match u32 0 0 action mirred egress mirror "
                "dev lo && tc filter add dev v ingress pref 3 protocol ip u32 match u32 0 0"));
  CHECK(tc::filters(socket, v, tc::kIngress).size() == 3);
  socket.send(remove(v, second));
  CHECK(tc::filters(socket, v, tc::kIngress).size() == 2);
  CHECK(targets("ingress") == "redirect egress i");
  socket.send(remove(v, second));
  CHECK(tc::filters(socket, v, tc::kIngress).size() == 2);
  socket.send(remove(v, all));
  CHECK(filters_of("ingress").empty());
  CHECK(tc::filters(socket, v, tc::kIngress).empty());
}

TEST_CASE("two actions are seen in their order, and the first one decides") {
  const Node node;
  RouteSocket socket;
  const Link v = socket.get("v"), i = socket.get("i"), w = socket.get("w");
  REQUIRE(
      node::run("tc qdisc add dev v handle ffff: ingress && tc filter add dev v parent ffff: pref "
                "1 protocol all "
                "u32 match u32 0 0 flowid 1:1 action mirred egress redirect dev i "
                "action mirred egress mirror dev w"));
  const auto seen = tc::filters(socket, v, tc::handle(0xFFFF));
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].flow == tc::handle(1, 1));
  CHECK(seen[0].mirreds ==
        std::vector<tc::Mirred>{{i.index, true, TC_ACT_STOLEN}, {w.index, false, TC_ACT_PIPE}});
  CHECK(seen[0].redirects_all_to(i.index));
  CHECK_FALSE(seen[0].redirects_all_to(w.index));
  // One with a handle of its own comes before it.
  socket.send(add(v, tc::Redirect{.to_link = w.index}));
  CHECK(targets("parent ffff:") == "redirect egress w; redirect egress i; mirror egress w");
  socket.send(replace(v, tc::Redirect{.to_link = w.index, .handle = seen[0].handle}));
  CHECK(targets("parent ffff:") == "redirect egress w; redirect egress w");
}

TEST_CASE("beside u32 filters of others the kernel chooses the handle") {
  const Node node;
  RouteSocket socket;
  const Link v = socket.get("v"), i = socket.get("i");
  REQUIRE(
      node::run("tc qdisc add dev v ingress && tc filter add dev v ingress pref 9 protocol ip "
                "u32 match ip dst 192.0.2.1 action mirred egress mirror dev lo"));
  CHECK(refusal([&] { socket.send(add(v, tc::Redirect{.to_link = i.index})); }) == EINVAL);
  CHECK(refusal([&] { socket.send(replace(v, tc::Redirect{.to_link = i.index})); }) == EINVAL);
  CHECK(targets("ingress") == "mirror egress lo");
  socket.send(add(v, tc::Redirect{.to_link = i.index, .handle = tc::kNone}));
  const auto seen = tc::filters(socket, v, tc::kIngress);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].redirects_all_to(i.index));
  CHECK_FALSE(seen[1].redirects_all_to(socket.get("lo").index));
  CHECK(seen[1].keys == std::vector<tc::Key>{{0xC0000201, 0xFFFFFFFF, 16}});
  socket.send(replace(v, tc::Redirect{.to_link = socket.get("w").index, .handle = seen[0].handle}));
  CHECK(targets("ingress") == "redirect egress w; mirror egress lo");
}

TEST_CASE("what goes to a network goes through its class") {
  const Speaking node;
  RouteSocket socket;
  const Link v = socket.get("v");
  const auto to = [](const char* text, tc::Handle flow) {
    const Cidr network = Cidr::parse(text).value();
    const std::uint16_t priority = network.ip.is_v4() ? 16 : 15;
    return tc::ToClass{tc::handle(1), flow, priority, network};
  };
  const auto cls = [](std::uint16_t minor) {
    return tc::HtbClass{tc::kRoot, tc::handle(1, minor), 1000000, 1000000, 156250, 156250};
  };
  send(socket, add(v, tc::Qdisc{tc::kRoot, tc::handle(1), tc::Htb{.default_minor = 1}}),
       replace(v, cls(1)), replace(v, cls(2)), replace(v, cls(3)),
       add(v, to("192.0.2.0/24", tc::handle(1, 2))),
       add(v, to("198.51.100.7/32", tc::handle(1, 3))),
       add(v, to("2001:db8:1:2::/64", tc::handle(1, 2))),
       add(v, to("2001:db8::8000/113", tc::handle(1, 3))));
  const auto packets = [&](int minor) {
    const std::string text =
        node::output_of("tc -s class show dev v classid 1:" + std::to_string(minor));
    int out = -1;
    const auto at = text.find("bytes ");
    REQUIRE(at != std::string::npos);
    REQUIRE(std::sscanf(text.c_str() + at, "bytes %d pkt", &out) == 1);
    return out;
  };
  struct Sent {
    const char* to;
    int minor;
  };
  const Sent table[] = {
      {"192.0.2.77", 2},     {"192.0.3.77", 1},        {"198.51.100.7", 3},
      {"198.51.100.8", 1},   {"2001:db8:1:2:f::1", 2}, {"2001:db8:1:3::1", 1},
      {"2001:db8::8001", 3}, {"2001:db8::7fff", 1},    {"2001:db8::1:8001", 1},
  };
  for (const Sent& one : table) {
    CAPTURE(one.to);
    const std::array<int, 3> before{packets(1), packets(2), packets(3)};
    speak("v", one.to);
    CHECK(packets(one.minor) > before[static_cast<std::size_t>(one.minor - 1)]);
    for (const int other : {2, 3}) {
      if (other != one.minor) CHECK(packets(other) == before[static_cast<std::size_t>(other - 1)]);
    }
  }
  const auto seen = tc::filters(socket, v, tc::handle(1));
  REQUIRE(seen.size() == 4);
  CHECK(seen[0].protocol == 0x86DD);
  CHECK(seen[0].priority == 15);
  CHECK(seen[0].keys ==
        tc::keys_of(Cidr::parse("2001:db8:1:2::/64").value(), tc::End::kDestination));
  CHECK(seen[0].flow == tc::handle(1, 2));
  CHECK(seen[3].protocol == 0x0800);
  CHECK(seen[3].keys == tc::keys_of(Cidr::parse("198.51.100.7/32").value(), tc::End::kDestination));
  CHECK(seen[3].flow == tc::handle(1, 3));
  socket.send(remove(v, tc::FilterGroup{.parent = tc::handle(1), .priority = 15}));
  CHECK(tc::filters(socket, v, tc::handle(1)).size() == 2);
}

TEST_CASE("a network of length 0 is everything of its family") {
  const Speaking node;
  RouteSocket socket;
  const Link v = socket.get("v");
  for (const char* const text : {"0.0.0.0/0", "::/0"}) {
    const Cidr all = Cidr::parse(text).value();
    const std::uint16_t priority = all.ip.is_v4() ? 16 : 15;
    send(socket, replace(v, tc::Qdisc{tc::kRoot, tc::handle(priority), tc::Htb{}}),
         add(v, tc::ToClass{tc::handle(priority), tc::handle(priority, 1), priority, all}));
    const auto seen = tc::filters(socket, v, tc::handle(priority));
    REQUIRE(seen.size() == 1);
    CHECK(seen[0].keys == std::vector<tc::Key>{{}});
    CHECK(seen[0].protocol == (all.ip.is_v4() ? 0x0800 : 0x86DD));
  }
}

TEST_CASE("a program decides over what a link sends, and is changed in place") {
  const Speaking node;
  RouteSocket socket;
  const Link v = socket.get("v");
  const Fd drop = program(TC_ACT_SHOT), pass = program(TC_ACT_OK);
  send(socket, replace(v, kClsactQdisc),
       add(v, tc::Program{.fd = drop.get(), .name = "drop everything"}));
  CHECK(refusal([&] { socket.send(add(v, tc::Program{.fd = pass.get(), .name = "x"})); }) ==
        EEXIST);
  auto seen = tc::filters(socket, v, tc::kEgress);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].kind == "bpf");
  CHECK(seen[0].program == "drop everything");
  CHECK(seen[0].program_id != 0);
  CHECK(seen[0].direct_action);
  CHECK(seen[0].handle == tc::Handle{1});
  CHECK(tc::filters(socket, v, tc::kIngress).empty());
  const json shown_filter = filters_of("egress").at(0);
  CHECK(shown_filter["kind"] == "bpf");
  CHECK(shown_filter["options"]["bpf_name"] == "drop everything");
  CHECK(shown_filter["options"]["direct-action"] == true);
  CHECK(shown_filter["options"]["prog"]["id"] == seen[0].program_id);
  int before = sent("v");
  speak("v", "10.1.0.2");
  CHECK(sent("v") == before);
  const std::uint32_t first_id = seen[0].program_id;
  socket.send(replace(v, tc::Program{.fd = pass.get(), .name = "pass everything"}));
  seen = tc::filters(socket, v, tc::kEgress);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].program == "pass everything");
  CHECK(seen[0].program_id != first_id);
  before = sent("v");
  speak("v", "10.1.0.3");
  CHECK(sent("v") > before);
  socket.send(remove(v, tc::FilterGroup{.parent = tc::kEgress, .priority = 1}));
  CHECK(tc::filters(socket, v, tc::kEgress).empty());
  socket.send(replace(v, tc::Program{.fd = pass.get(), .name = "again"}));
  CHECK(tc::filters(socket, v, tc::kEgress).size() == 1);
  socket.send(remove(v, kClsactQdisc));
  CHECK(tc::filters(socket, v, tc::kEgress).empty());
}

static const node::TestFile kTests(__FILE__, tc_test::lacks);
