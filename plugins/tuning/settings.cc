#include "plugins/tuning/settings.h"

#include <algorithm>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "libcni/plugin/privileges.h"
#include "netlink/route/link.h"
#include "netlink/route/neighbour.h"
#include "plugins/common/link/host_veth.h"
#include "plugins/tuning/sysctls.h"

namespace tuning {

namespace {

using cni::cat;
using cni::Code;
using netlink::Capability;
using netlink::Link;
using netlink::LinkChange;
using netlink::NetNs;
using netlink::NetSysctls;
using netlink::RouteSocket;

// Undo step of ADD.
struct SetSysctlBack {
  NetNs ns;
  Sysctl sysctl;
  void operator()() const {
    const NetNs::Entered entered(ns);
    NetSysctls().write(sysctl.key, sysctl.value);
  }
  std::string describe() const { return cat("set net/", sysctl.key, " back"); }
};

struct SetLinkBack {
  NetNs ns;
  Link link;  // by its index
  LinkChange change;
  void operator()() const { RouteSocket(ns).send(netlink::set_link(link, change)); }
  std::string describe() const { return cat("set '", link.name, "' back"); }
};

// Calls fn with each setting of one and the same of the other.
template <class Fn>
void each_setting(LinkSettings& one, const LinkSettings& other, Fn&& fn) {
  fn(one.mac, other.mac);
  fn(one.promiscuous, other.promiscuous);
  fn(one.mtu, other.mtu);
  fn(one.all_multicast, other.all_multicast);
  fn(one.tx_queue_length, other.tx_queue_length);
}

// Values that an earlier ADD of the attachment kept in the same namespace stay: they are from
// before any change.
void put_kept(TunedPod& pod, const std::string& data_dir, State now, cni::Undo& undo) {
  const auto states = StateDir::create(data_dir);
  const auto earlier = read_state(states, plugins::state_owner(pod.request));
  if (earlier && earlier->owner.is_in(pod.socket.cookie())) {
    each_setting(now.link, earlier->link, [](auto& setting, const auto& first) {
      if (first) setting = first;
    });
    if (earlier->host_mtu) now.host_mtu = earlier->host_mtu;
    std::vector<Sysctl> sysctls = earlier->sysctls;
    for (Sysctl& one : now.sysctls) {
      const bool is_kept =
          std::ranges::any_of(sysctls, [&](const Sysctl& other) { return other.key == one.key; });
      if (!is_kept) sysctls.push_back(std::move(one));
    }
    now.sysctls = std::move(sysctls);
  }
  plugins::put_state(states, earlier, now, undo);
}

// A read-only directory is no reason to have no settings: DEL leaves them then, as the namespace
// goes.
void keep(TunedPod& pod, const std::string& data_dir, State now, cni::Undo& undo) {
  now.owner = plugins::state_owner(pod.request, pod.socket);
  cni::noting_failure(
      "tuning: DEL will not restore the earlier settings",
      [&] { put_kept(pod, data_dir, std::move(now), undo); }, cni::is_refusal);
}

// A secret that has not been set cannot be read (ipv6_sysctl_stable_secret() in
// net/ipv6/addrconf.c).
bool is_unset_secret(const std::string& key, int error) {
  return error == EIO && key.ends_with("/stable_secret");
}

// The setting's value; empty if it can only be written.
std::optional<std::string> value_of(const NetSysctls& net, const std::string& key) try {
  return net.read(key);
} catch (const netlink::Error& e) {
  if (e.error() != EACCES && e.error() != EPERM && !is_unset_secret(key, e.error())) throw;
  return std::nullopt;
}

void set_sysctl(const NetSysctls& net, const Sysctl& one,
                const std::optional<std::string>& now) try {
  net.write(one.key, one.value);
} catch (const netlink::Error& e) {
  // A read-only /proc/sys with the right value will do.
  const bool is_closed = e.error() == EROFS || e.error() == EACCES;
  if (is_closed && now && same_value(*now, one.value)) return;
  throw cni::error_of(
      netlink::Error(cat(is_closed ? "open" : "write", " /proc/sys/net/", one.key), e.error()),
      cat("the value is \"", one.value, "\""));
}

LinkSettings settings_of(const Link& link) {
  return {.mac = link.mac,
          .promiscuous = link.promiscuous,
          .mtu = link.mtu,
          .all_multicast = link.all_multicast,
          .tx_queue_length = link.tx_queue_length};
}

LinkSettings wanted_by(const Conf& conf) {
  LinkSettings out{.mac = conf.mac,
                   .all_multicast = conf.all_multicast,
                   .tx_queue_length = conf.tx_queue_length};
  if (conf.promiscuous) out.promiscuous = true;
  if (conf.mtu != 0) out.mtu = conf.mtu;
  return out;
}

// Reduces all to the settings that are wanted.
LinkSettings those_of(const LinkSettings& wanted, LinkSettings all) {
  each_setting(all, wanted, [](auto& one, const auto& want) {
    if (!want) one.reset();
  });
  return all;
}

// Reduces the wanted settings to those that the link does not have.
LinkSettings lacking(LinkSettings wanted, const Link& link) {
  each_setting(wanted, settings_of(link), [](auto& one, const auto& now) {
    if (one == now) one.reset();
  });
  return wanted;
}

LinkChange change_to(const LinkSettings& wanted) {
  return {.promiscuous = wanted.promiscuous,
          .all_multicast = wanted.all_multicast,
          .mac = wanted.mac,
          .mtu = wanted.mtu,
          .tx_queue_length = wanted.tx_queue_length};
}

void apply(RouteSocket& socket, const NetNs& ns, const Link& link, const LinkSettings& wanted,
           cni::Undo* undo) {
  const LinkSettings change = lacking(wanted, link);
  if (change == LinkSettings{}) return;
  if (undo) undo->add(SetLinkBack{ns, link, change_to(those_of(wanted, settings_of(link)))});
  socket.send(netlink::set_link(link, change_to(change)));
}

// A change that the kernel refuses for good must not hold up DEL: the pod is about to go.
bool is_final(int error) {
  constexpr int kRefusals[] = {EACCES, EBUSY, EINVAL, ENODEV, EOPNOTSUPP, EPERM, ERANGE, EROFS};
  return std::ranges::find(kRefusals, error) != std::end(kRefusals);
}

void restore_sysctls(const NetNs& ns, const State& state) {
  const NetNs::Entered entered(ns);
  const NetSysctls net;
  for (auto one = state.sysctls.rbegin(); one != state.sysctls.rend(); ++one) {
    const auto write = [&] {
      if (net.has(one->key)) net.write(one->key, one->value);
    };
    cni::noting_failure("restore", write, is_final);
  }
}

void restore_link(const cni::Request& request, const NetNs& ns, RouteSocket& pod,
                  const State& state) {
  if (state.link == LinkSettings{} && !state.host_mtu) return;
  const auto link = pod.find(request.ifname);
  if (!link) return;
  RouteSocket host;
  const auto veth = state.host_mtu ? plugins::host_veth_of(host, request, ns, *link) : std::nullopt;
  cni::noting_failure(
      "restore", [&] { apply(pod, ns, *link, state.link, nullptr); }, is_final);
  if (!veth) return;
  const auto set_mtu = [&] {
    apply(host, NetNs::current(), *veth, {.mtu = state.host_mtu}, nullptr);
  };
  cni::noting_failure("restore", set_mtu, is_final);
}

void restore_state(const cni::Request& request, const State& state) {
  const auto ns = NetNs::find(request.netns);
  if (!ns) return;
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  RouteSocket pod(*ns);
  if (!state.owner.is_in(pod.cookie())) return;  // another pod has the path now
  cni::BestEffort each;
  each("restore the interface", [&] { restore_link(request, *ns, pod, state); });
  each("restore the sysctls", [&] { restore_sysctls(*ns, state); });
  each.finish();
}

[[noreturn]] void complain(std::string_view what, const std::string& wanted,
                           const std::string& now) {
  throw cni::Error(Code::kInternal,
                   cat("Error: Tuning ", what, " is ", wanted, ", current value is ", now));
}

template <class T>
void require_same(std::string_view what, const std::optional<T>& wanted, const T& now) {
  if (wanted && *wanted != now) complain(what, cat(*wanted), cat(now));
}

NetNs open_with_rights(const cni::Request& request) {
  if (request.command == cni::Command::kCheck) {
    cni::require_capabilities(request, {Capability::kSysAdmin});
  } else {
    cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  }
  return cni::enter_netns(request);
}

// The node learns the new MAC address by this, the others of the segment from the kernel, which
// announces it where arp_notify is set, as interface plugins do (NETDEV_CHANGEADDR in devinet.c).
void correct_neighbours(TunedPod& pod, const Link& veth, const LinkSettings& wanted,
                        const cni::Result& result) {
  if (!wanted.mac) return;
  const auto master = veth.master == 0 ? std::nullopt : pod.host->find(veth.master);
  std::vector<netlink::RouteRequest> requests;
  for (const cni::Address& address : result.ips) {
    requests.push_back(
        netlink::correct_neighbour(master.value_or(veth), address.cidr.ip, *wanted.mac));
  }
  pod.host->send(std::move(requests));
}

// Whether the MTU of the host veth is nobody else's. A bridge whose MTU nobody has set takes the
// lowest one of its ports for all of them (br_mtu_auto_adjust() in net/bridge/br_if.c), as Open
// vSwitch does; a VRF does not.
bool has_own_mtu(RouteSocket& host, const Link& veth) {
  if (veth.master == 0) return true;
  const auto master = host.find(veth.master);
  return master && master->kind == "vrf";
}

// Whether ADD has set the MTU of the host veth. The reference plugin leaves it.
bool has_set_host_mtu(const cni::Request& request, const Conf& conf) {
  const auto states = StateDir::find(conf.data_dir);
  const auto state = states ? read_state(*states, plugins::state_owner(request)) : std::nullopt;
  return state && state->host_mtu;
}

void check_host_mtu(TunedPod& pod, const Conf& conf, const Link& link) {
  if (conf.mtu == 0 || !conf.mtu_both_ends || !has_set_host_mtu(pod.request, conf)) return;
  const auto veth = pod.host_veth(link);
  if (!veth || !has_own_mtu(*pod.host, *veth)) return;
  require_same("configured MTU of the host veth", std::optional(conf.mtu), veth->mtu);
}

}  // namespace

TunedPod::TunedPod(const cni::Request& of) : request(of), ns(open_with_rights(of)), socket(ns) {}

Link TunedPod::interface() {
  auto link = socket.find(request.ifname);
  if (link) return *std::move(link);
  throw cni::Error(Code::kInternal, cat("failed to get \"", request.ifname, "\": Link not found"),
                   "the pod has no interface of this name: tuning is chained after the plugin that "
                   "creates it");
}

std::optional<Link> TunedPod::host_veth(const Link& inside) {
  if (inside.kind != "veth") return std::nullopt;
  if (!host) host.emplace();
  return plugins::host_veth_of(*host, request, ns, inside);
}

void set_sysctls(TunedPod& pod, const Conf& conf, cni::Undo& undo) {
  if (conf.sysctls.empty()) return;
  const cni::Phase phase("sysctls");
  std::vector<std::pair<Sysctl, std::optional<std::string>>> changes;
  State state;
  const NetNs::Entered entered(pod.ns);
  const NetSysctls net;
  for (Sysctl& one : resolve(net, conf.sysctls, pod.request.ifname)) {
    auto now = value_of(net, one.key);
    if (now) state.sysctls.push_back({one.key, *now});
    changes.emplace_back(std::move(one), std::move(now));
  }
  keep(pod, conf.data_dir, std::move(state), undo);
  for (const auto& [sysctl, now] : changes) {
    if (now) undo.add(SetSysctlBack{pod.ns, {sysctl.key, *now}});
    set_sysctl(net, sysctl, now);
  }
}

void set_link(TunedPod& pod, const Conf& conf, const cni::Result& result, cni::Undo& undo) {
  if (!conf.changes_link()) return;
  const cni::Phase phase("link");
  const Link link = pod.interface();
  const bool both_ends = conf.mtu != 0 && conf.mtu_both_ends;
  const auto veth = both_ends || conf.mac ? pod.host_veth(link) : std::nullopt;
  const bool has_outside = veth && both_ends && has_own_mtu(*pod.host, *veth);
  const LinkSettings wanted = wanted_by(conf);
  State state{.link = those_of(wanted, settings_of(link))};
  if (has_outside) state.host_mtu = veth->mtu;
  keep(pod, conf.data_dir, std::move(state), undo);
  apply(pod.socket, pod.ns, link, wanted, &undo);
  if (has_outside) apply(*pod.host, NetNs::current(), *veth, {.mtu = conf.mtu}, &undo);
  if (veth) correct_neighbours(pod, *veth, wanted, result);
}

void check_sysctls(TunedPod& pod, const Conf& conf) {
  if (conf.sysctls.empty()) return;
  const NetNs::Entered entered(pod.ns);
  const NetSysctls net;
  for (const Sysctl& one : resolve(net, conf.sysctls, pod.request.ifname)) {
    const auto now = value_of(net, one.key);
    if (now && !same_value(*now, one.value)) {
      complain(cat("configured value of /proc/sys/net/", one.key), one.value, *now);
    }
  }
}

void check_link(TunedPod& pod, const Conf& conf) {
  const Link link = pod.interface();
  const LinkSettings wanted = wanted_by(conf);
  const auto of = [&](const char* what) { return cat("configured ", what, " of ", link.name); };
  if (wanted.mac && *wanted.mac != link.mac) {
    complain(of("Ethernet"), wanted.mac->str(), link.mac.str());
  }
  if (wanted.promiscuous && !link.promiscuous) {
    complain(cat("link ", link.name, " configured promisc"), "true", "0");
  }
  require_same(of("MTU"), wanted.mtu, link.mtu);
  if (wanted.all_multicast && *wanted.all_multicast != link.all_multicast) {
    complain(of("all-multicast mode"), link.all_multicast ? "false" : "true",
             link.all_multicast ? "true" : "false");
  }
  require_same(of("Transmit Queue Length"), wanted.tx_queue_length, link.tx_queue_length);
  check_host_mtu(pod, conf, link);
}

void restore(const cni::Request& request, const StateDir& states) {
  const auto owner = plugins::state_owner(request);
  if (const auto state = read_state(states, owner)) restore_state(request, *state);
  remove_state(states, owner);
}

}  // namespace tuning
