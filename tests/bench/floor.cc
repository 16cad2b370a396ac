// What the kernel asks for the network of one pod, by the fewest requests: the floor under ADD and
// DEL.
//
// Plugins that know no config: what this is called as tells which, floor_bridge, floor_portmap,
// floor_bandwidth, floor_ptp, floor_macvlan or floor_host-device. Each makes what the plugin of
// that name makes and the next plugin or another call has to find: a pair of links with its outer
// end in a bridge, settings, an address in its file, a route, an element of nftables' sets, a token
// bucket for each direction. No name is looked up: links have numbers chosen here. The pod's number
// is at the end of its container ID. What all pods share is there: macvlan's master and
// host-device's device, too. DEL of the first three is floor_bridge's alone.
//
// CNI_ARGS has BRIDGE=NUMBER, the bridge of floor_bridge. FLOOR_MODE is where what the pod
// sends is limited: ifb, a link of the node, or pod; ports if floor_portmap follows floor_ptp.
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/tc_act/tc_mirred.h>
#include <linux/veth.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/bench/messages.h"
#include "tests/bench/pod.h"

namespace {

constexpr std::uint32_t kRate = 12'500'000, kBurst = 1'250'000;  // bytes
constexpr unsigned kNew = NLM_F_CREATE | NLM_F_EXCL;

void add_pair(Messages& out, const Pod& pod, int netns) {
  out.begin(RTM_NEWLINK, kNew, link_header(pod.link(), true));
  name(out, 'f', pod.number);
  if (pod.bridge != 0) out.value(IFLA_MASTER, pod.bridge);
  out.nest(IFLA_LINKINFO, [&] {
    out.put(IFLA_INFO_KIND, "veth");
    out.nest(IFLA_INFO_DATA, [&] {
      out.nest(VETH_INFO_PEER, [&] {
        const ifinfomsg peer = link_header(pod.link(), false);  // alone it cannot be up yet
        out.append(&peer, sizeof peer);
        out.put(IFLA_IFNAME, "eth0");
        out.value(IFLA_NET_NS_FD, netns);
      });
    });
  });
}

void add_ifb(Messages& out, const Pod& pod) {
  out.begin(RTM_NEWLINK, kNew, link_header(pod.ifb_link(), true));
  name(out, 'i', pod.number);
  out.nest(IFLA_LINKINFO, [&] { out.put(IFLA_INFO_KIND, "ifb"); });
}

tcmsg queue(int link, std::uint32_t parent, std::uint32_t handle) {
  tcmsg out{};
  out.tcm_ifindex = link;
  out.tcm_parent = parent;
  out.tcm_handle = handle;
  return out;
}

void add_bucket(Messages& out, int link) {
  out.begin(RTM_NEWQDISC, kNew, queue(link, TC_H_ROOT, 1U << 16));
  out.put(TCA_KIND, "tbf");
  out.nest(TCA_OPTIONS, [&] {
    tc_tbf_qopt options{};
    options.rate.rate = kRate;
    options.rate.linklayer = TC_LINKLAYER_ETHERNET;
    options.limit = 2 * kBurst;
    out.value(TCA_TBF_PARMS, options);
    out.value(TCA_TBF_BURST, kBurst);
  });
}

// What comes in from the pod goes to the ifb.
void add_detour(Messages& out, const Pod& pod) {
  out.begin(RTM_NEWQDISC, kNew, queue(pod.link(), TC_H_INGRESS, TC_H_MAKE(TC_H_INGRESS, 0)));
  out.put(TCA_KIND, "ingress");
  tcmsg filter = queue(pod.link(), TC_H_MAKE(TC_H_INGRESS, 0), 0);
  filter.tcm_info = TC_H_MAKE(1U << 16, htons(0x0003));  // ETH_P_ALL
  out.begin(RTM_NEWTFILTER, kNew, filter);
  out.put(TCA_KIND, "u32");
  out.nest(TCA_OPTIONS, [&] {
    tc_u32_sel all{};  // with no key: every packet
    all.flags = TC_U32_TERMINAL;
    out.put(TCA_U32_SEL, &all, sizeof all);
    out.nest(TCA_U32_ACT, [&] {
      out.nest(1, [&] {
        out.put(TCA_ACT_KIND, "mirred");
        out.nest(TCA_ACT_OPTIONS, [&] {
          tc_mirred redirect{};
          redirect.action = TC_ACT_STOLEN;
          redirect.eaction = TCA_EGRESS_REDIR;
          redirect.ifindex = static_cast<std::uint32_t>(pod.ifb_link());
          out.value(TCA_MIRRED_PARMS, redirect);
        });
      });
    });
  });
}

constexpr unsigned kSubnet = (10U << 24) + (200U << 16), kSubnetBits = 16;
const std::uint32_t kGateway = htonl(kSubnet + 1);

void add_address(Messages& out, const Pod& pod, std::uint32_t address, unsigned prefix) {
  ifaddrmsg header{};
  header.ifa_family = AF_INET;
  header.ifa_prefixlen = static_cast<std::uint8_t>(prefix);
  header.ifa_index = static_cast<std::uint32_t>(pod.link());
  out.begin(RTM_NEWADDR, kNew, header);
  out.value(IFA_LOCAL, address);
  out.value(IFA_ADDRESS, address);
}

// To a network in network byte order; through the gateway unless the scope is narrower.
void add_route(Messages& out, const Pod& pod, std::uint32_t to, unsigned bits, unsigned scope) {
  rtmsg route{};
  route.rtm_family = AF_INET;
  route.rtm_dst_len = static_cast<std::uint8_t>(bits);
  route.rtm_table = RT_TABLE_MAIN;
  route.rtm_protocol = RTPROT_BOOT;
  route.rtm_scope = static_cast<std::uint8_t>(scope);
  route.rtm_type = RTN_UNICAST;
  out.begin(RTM_NEWROUTE, kNew, route);
  if (bits != 0) out.value(RTA_DST, to);
  if (scope == RT_SCOPE_UNIVERSE) out.value(RTA_GATEWAY, kGateway);
  if (scope != RT_SCOPE_UNIVERSE) out.value(RTA_OIF, pod.link());
}

// With ptp, routes stand in place of the kernel's to the subnet.
void configure_pod(Messages& out, const Pod& pod, bool ptp) {
  out.begin(RTM_NEWLINK, 0, link_header(pod.link(), true));
  add_address(out, pod, pod.address(), kSubnetBits);
  if (ptp) {
    out.value(IFA_FLAGS, std::uint32_t{IFA_F_NOPREFIXROUTE});
    add_route(out, pod, kGateway, 32, RT_SCOPE_LINK);
    add_route(out, pod, htonl(kSubnet), kSubnetBits, RT_SCOPE_UNIVERSE);
  }
  add_route(out, pod, 0, 0, RT_SCOPE_UNIVERSE);
}

nfgenmsg nf_header(std::uint16_t resource) { return {AF_INET, NFNETLINK_V0, htons(resource)}; }

constexpr nfgenmsg kIpv4{AF_INET, NFNETLINK_V0, 0};

// An element of a set, or of a map with the data.
template <class Fill>
void element(Messages& out, unsigned type, std::string_view set, Fill fill) {
  const bool adds = type == NFT_MSG_NEWSETELEM;
  out.begin((NFNL_SUBSYS_NFTABLES << 8) | type, adds ? NLM_F_CREATE : 0U, kIpv4);
  out.put(NFTA_SET_ELEM_LIST_TABLE, "floor");
  out.put(NFTA_SET_ELEM_LIST_SET, set);
  out.nest(NFTA_SET_ELEM_LIST_ELEMENTS, [&] { out.nest(NFTA_LIST_ELEM, fill); });
}

void value(Messages& out, unsigned attribute, const void* data, std::size_t size) {
  out.nest(attribute, [&] { out.put(NFTA_DATA_VALUE, data, size); });
}

// The pod's address is masqueraded.
void change_masquerade(Messages& out, const Pod& pod, unsigned type) {
  const std::uint32_t address = pod.address();
  element(out, type, "masq", [&] { value(out, NFTA_SET_ELEM_KEY, &address, sizeof address); });
}

// A port of the node leads to it.
void change_port(Messages& out, const Pod& pod, unsigned type) {
  const struct {
    std::uint8_t protocol, pad[3];
    std::uint16_t port, pad2;
  } key{IPPROTO_TCP, {}, pod.port(), 0};
  const struct {
    std::uint32_t address;
    std::uint16_t port, pad;
  } target{pod.address(), htons(80), 0};
  element(out, type, "ports", [&] {
    value(out, NFTA_SET_ELEM_KEY, &key, sizeof key);
    if (type == NFT_MSG_NEWSETELEM) value(out, NFTA_SET_ELEM_DATA, &target, sizeof target);
  });
}

template <class Fill>
void transaction(Fill fill) {
  Messages out;
  out.begin(NFNL_MSG_BATCH_BEGIN, 0, nf_header(NFNL_SUBSYS_NFTABLES));
  fill(out);
  out.begin(NFNL_MSG_BATCH_END, 0, nf_header(NFNL_SUBSYS_NFTABLES));
  out.acknowledge();
  send(open_socket(NETLINK_NETFILTER), out, "change the sets");
}

// As host-local keeps it: under a lock, a file for the address and one for where the search goes
// on.
void reserve(const Pod& pod) {
  const int dir = checked(::open(kReservations, O_RDONLY | O_DIRECTORY | O_CLOEXEC), kReservations);
  const int lock = checked(::openat(dir, "lock", O_RDONLY | O_CLOEXEC), "lock");
  checked(::flock(lock, LOCK_EX), "lock");
  char last[64];
  const int file = checked(::openat(dir, kLast, O_RDONLY | O_CLOEXEC), kLast);
  checked(static_cast<int>(::read(file, last, sizeof last)), kLast);
  ::close(file);
  char name[16];
  std::snprintf(name, sizeof name, "%u", pod.number);
  write_file(dir, name, O_CREAT | O_EXCL, pod.id);
  write_file(dir, kLast, O_TRUNC, name);
  ::close(lock);
  ::close(dir);
}

int open_netns(const char* path) { return checked(::open(path, O_RDONLY | O_CLOEXEC), path); }

// A macvlan of the master.
void add_macvlan(Messages& out, const Pod& pod, int netns) {
  out.begin(RTM_NEWLINK, kNew, link_header(pod.link(), false));
  out.put(IFLA_IFNAME, "eth0");
  out.value(IFLA_LINK, kMaster);
  out.value(IFLA_NET_NS_FD, netns);
  out.nest(IFLA_LINKINFO, [&] { out.put(IFLA_INFO_KIND, "macvlan"); });
}

// A link of this namespace goes to another, down: the kernel would take it down.
void move(Messages& out, const Pod& pod, std::string_view name, int netns) {
  ifinfomsg header = link_header(pod.link(), false);
  header.ifi_change = IFF_UP;
  out.begin(RTM_NEWLINK, 0, header);
  out.put(IFLA_IFNAME, name);
  out.value(IFLA_NET_NS_FD, netns);
}

// macvlan, or host-device.
void add_interface(const Pod& pod) {
  const int netns = open_netns(pod.netns);
  Messages outside;
  if (pod.device == 0) {
    add_macvlan(outside, pod, netns);
  } else {
    move(outside, pod, "eth0", netns);
  }
  outside.acknowledge();
  send(open_socket(NETLINK_ROUTE), outside, "give the link");
  reserve(pod);
  checked(::setns(netns, CLONE_NEWNET), "setns");
  Messages inside;
  configure_pod(inside, pod, false);
  inside.acknowledge();
  send(open_socket(NETLINK_ROUTE), inside, "configure the pod");
}

void release(const Pod& pod) {
  char file[96];
  std::snprintf(file, sizeof file, "%s/%u", kReservations, pod.number);
  checked(::unlink(file), file);
}

void del_interface(const Pod& pod) {
  const int node = open_netns("/proc/self/ns/net");
  checked(::setns(open_netns(pod.netns), CLONE_NEWNET), "setns");
  Messages out;
  if (pod.device == 0) {
    out.begin(RTM_DELLINK, 0, link_header(pod.link(), false));
  } else {
    move(out, pod, "device", node);
  }
  out.acknowledge();
  send(open_socket(NETLINK_ROUTE), out, "take the link");
  if (pod.device != 0) {
    checked(::setns(node, CLONE_NEWNET), "setns");
    Messages up;
    up.begin(RTM_NEWLINK, 0, link_header(pod.link(), true));
    up.acknowledge();
    send(open_socket(NETLINK_ROUTE), up, "bring the device up");
  }
  release(pod);
}

// bridge, or ptp where there is none.
void add_pod(const Pod& pod) {
  const int netns = open_netns(pod.netns);
  Messages outside;
  add_pair(outside, pod, netns);
  if (pod.bridge == 0) {
    add_address(outside, pod, kGateway, 32);
    add_route(outside, pod, pod.address(), 32, RT_SCOPE_HOST);
  }
  outside.acknowledge();
  send(open_socket(NETLINK_ROUTE), outside, "make the links");
  char setting[64];
  std::snprintf(setting, sizeof setting, "/proc/sys/net/ipv6/conf/f%u/accept_ra", pod.number);
  write_file(AT_FDCWD, setting, 0, "0");
  reserve(pod);
  transaction([&](Messages& out) { change_masquerade(out, pod, NFT_MSG_NEWSETELEM); });

  checked(::setns(netns, CLONE_NEWNET), "setns");
  write_file(AT_FDCWD, "/proc/sys/net/ipv6/conf/eth0/accept_ra", 0, "0");
  write_file(AT_FDCWD, "/proc/sys/net/ipv6/conf/eth0/accept_dad", 0, "0");
  Messages inside;
  configure_pod(inside, pod, pod.bridge == 0);
  inside.acknowledge();
  send(open_socket(NETLINK_ROUTE), inside, "configure the pod");
}

void add_bandwidth(const Pod& pod) {
  Messages outside;
  add_bucket(outside, pod.link());
  if (pod.ifb) {
    add_ifb(outside, pod);
    add_bucket(outside, pod.ifb_link());
    add_detour(outside, pod);
  }
  outside.acknowledge();
  send(open_socket(NETLINK_ROUTE), outside, "limit what the pod gets");
  if (pod.ifb) return;
  checked(::setns(open_netns(pod.netns), CLONE_NEWNET), "setns");
  Messages inside;
  add_bucket(inside, pod.link());
  inside.acknowledge();
  send(open_socket(NETLINK_ROUTE), inside, "limit what the pod sends");
}

void add(std::string_view plugin, const Pod& pod) {
  if (plugin == "floor_bridge" || plugin == "floor_ptp") add_pod(pod);
  if (plugin == "floor_macvlan" || plugin == "floor_host-device") add_interface(pod);
  if (plugin == "floor_portmap")
    transaction([&](Messages& out) { change_port(out, pod, NFT_MSG_NEWSETELEM); });
  if (plugin == "floor_bandwidth") add_bandwidth(pod);
  answer();
}

// A socket over which elements were removed waits when it is closed until the kernel has freed
// them: in the meantime it removes the links, which takes longer.
void del(const Pod& pod) {
  transaction([&](Messages& out) {
    change_masquerade(out, pod, NFT_MSG_DELSETELEM);
    if (pod.has_port) change_port(out, pod, NFT_MSG_DELSETELEM);
  });
  Messages out;
  out.begin(RTM_DELLINK, 0, link_header(pod.link(), false));
  if (pod.bridge != 0 && pod.ifb) out.begin(RTM_DELLINK, 0, link_header(pod.ifb_link(), false));
  out.acknowledge();
  send(open_socket(NETLINK_ROUTE), out, "remove the links");
  release(pod);
}

const char* variable(const char* name) {
  const char* const found = std::getenv(name);
  if (found == nullptr) {
    errno = EINVAL;
    fail(name);
  }
  return found;
}

}  // namespace

int main() {
  const std::string_view plugin = ::program_invocation_short_name;
  const std::string_view verb = variable("CNI_COMMAND");
  const char* const id = variable("CNI_CONTAINERID");
  Pod pod;
  pod.id = id;
  pod.number = static_cast<unsigned>(std::atoi(id + std::strcspn(id, "0123456789")));
  const std::string_view mode = variable("FLOOR_MODE");
  pod.ifb = mode == "ifb";
  pod.netns = variable("CNI_NETNS");
  const char* const args = variable("CNI_ARGS");
  if (plugin == "floor_host-device") pod.device = kDevice;
  pod.bridge = static_cast<unsigned>(std::atoi(args + std::strcspn(args, "0123456789")));
  pod.has_port = pod.bridge != 0 || mode == "ports";
  read_input();
  if (verb == "ADD") add(plugin, pod);
  if (verb == "DEL" && (plugin == "floor_bridge" || plugin == "floor_ptp")) del(pod);
  if (verb == "DEL" && (plugin == "floor_macvlan" || plugin == "floor_host-device"))
    del_interface(pod);
  return 0;
}
