#include "plugins/dhcp/daemon/attachment.h"

#include <algorithm>
#include <random>
#include <utility>

#include "libcni/common/undo.h"
#include "plugins/dhcp/daemon/close_aside.h"

namespace dhcp {

namespace {

using cni::cat;
using std::chrono::milliseconds, std::chrono::seconds;

constexpr Time kUpLimit = seconds(1), kUpPause = milliseconds(20);
constexpr unsigned kProbes = 3;  // in less time than RFC 5227 takes, as enabledad of macvlan
constexpr Time kBetweenProbes = milliseconds(300), kRetry = seconds(1);
constexpr Time kUntilAddress = milliseconds(50);  // what the interface plugin needs to add it
constexpr int kMaxAtOnce = 64;                    // a flood must not hold up the others

std::uint32_t random_number() {
  static std::random_device device;
  return device();
}

std::string period(const Lease& lease, Time now) {
  if (lease.expire == kNever) return "without end";
  return cat("for ", std::chrono::ceil<seconds>(lease.expire - now).count(), " s");
}

template <class Socket>
void retire(std::optional<Socket>& socket) noexcept {
  if (socket) close_aside(socket->take_fd());
  socket.reset();
}

}  // namespace

Attachment::Attachment(State state, Timing timing)
    : state_(std::move(state)), client_(state_.identity, timing, random_number) {}

void Attachment::log(std::string_view text) const { cni::note(cat(state_.name(), ": ", text)); }

bool Attachment::has_lost_namespace() const noexcept {
  return netns_ && netlink::NetNs::id_at(state_.owner.netns) != netns_;
}

void Attachment::acquire(Time now, std::optional<Ip> known) {
  auto ns = netlink::NetNs::open(state_.owner.netns);
  netlink::RouteSocket socket(ns);
  auto link = socket.find(state_.owner.key.ifname);
  if (!link || link->loopback || link->mac.is_zero()) {
    throw cni::Error(cni::Code::kInternal,
                     cat("the pod has no Ethernet interface '", state_.owner.key.ifname,
                         "': the interface plugin must create it before it calls dhcp"));
  }
  state_.owner.cookie = socket.cookie();
  state_.link = link->index;
  netns_ = ns.id();
  // All ipvlans of a master have its MAC address: one without address gets broadcasts alone.
  if (link->kind == "ipvlan") {
    state_.identity.broadcast = true;
    client_.set_broadcast();
  }
  acquiring_ = true;
  known_ = known;
  raised_ = !link->up;
  if (raised_) socket.send(netlink::set_link(*link, {.up = true}));
  start_by_ = now + kUpLimit;
  retry_at_ = now;
  if (!raised_) pod_ = OpenInterface{std::move(ns), std::move(socket), *std::move(link)};
}

bool Attachment::adopt(Time now, const cni::Result& result) {
  constexpr Time kBelieved = std::chrono::hours(1);  // as long as no server says otherwise
  const auto ns = netlink::NetNs::find(state_.owner.netns);
  if (!ns) return false;
  netlink::RouteSocket socket(*ns);
  const auto link = socket.find(state_.owner.key.ifname);
  if (!link) return false;
  const auto present = socket.addresses(*link, netlink::Family::kIpv4);
  for (const cni::Address& address : result.ips) {
    if (std::ranges::none_of(present, [&](const auto& one) { return one.cidr == address.cidr; })) {
      continue;
    }
    state_.owner.cookie = socket.cookie();
    state_.link = link->index;
    netns_ = ns->id();
    state_.lease = Lease{.address = address.cidr,
                         .gateway = address.gateway,
                         .server = Ip::any(netlink::Family::kIpv4),
                         .renew = now,
                         .rebind = now,
                         .expire = now + kBelieved};
    for (const cni::Route& route : result.routes) {
      if (route.dst.ip.is_v4()) state_.lease->routes.push_back(route);
    }
    client_.resume(*state_.lease);
    limit_at_ = now;
    log(cat("takes over ", address.cidr.str(), " of an earlier daemon"));
    return true;
  }
  return false;
}

bool Attachment::resume(Time now) {
  if (state_.lease) {
    client_.resume(*state_.lease);
    limit_at_ = now;
  } else {
    start_by_ = now;
    retry_at_ = now;
  }
  const auto pod = find_pod(state_);
  if (pod) netns_ = pod->ns.id();
  return pod.has_value();
}

bool Attachment::find() {
  if (!pod_) pod_ = find_pod(state_);
  return pod_.has_value();
}

bool Attachment::open(Time now) {
  try {
    if (!find()) {
      outcome_ = Outcome::kGone;
      return false;
    }
    if (packets_) return true;
    packets_.emplace(pod_->ns, pod_->link.index, kClientPort);
    client_.set_mac(pod_->link.mac);
    listen_on_master();
  } catch (const netlink::Error& e) {
    log(e.what());
    retry_at_ = now + kRetry;
  }
  return true;
}

// Kea sends even broadcast answers in a frame to the client's MAC address, which an ipvlan shares
// with its master. The kernel delivers such a frame to the ipvlan only if the ipvlan already has
// the destination address (ipvlan_handle_mode_l3() in drivers/net/ipvlan/ipvlan_core.c).
void Attachment::listen_on_master() {
  const netlink::Link& link = pod_->link;
  if (link.kind != "ipvlan" || !link.parent_nsid) return;
  const auto node = netlink::NetNs::current();
  if (pod_->socket.nsid(node) != link.parent_nsid) return;
  master_packets_.emplace(node, link.parent_index, kClientPort);
}

Attachment::Fds Attachment::fds() const {
  return {packets_ ? packets_->fd() : -1, master_packets_ ? master_packets_->fd() : -1,
          claims_ ? claims_->fd() : -1};
}

void Attachment::close() noexcept {
  retire(packets_);
  retire(master_packets_);
  retire(claims_);
}

// Once the interface can send, or does not come up in time.
void Attachment::start(Time now) {
  const auto state = pod_->link.oper_state;
  const bool ready = state == netlink::OperState::kUp || state == netlink::OperState::kUnknown;
  if (!ready && now < *start_by_) {
    retry_at_ = now + kUpPause;
    return;
  }
  start_by_.reset();
  retry_at_ = kNever;
  take(known_ ? client_.reboot(now, *known_) : client_.discover(now), now);
}

Attachment::Outcome Attachment::advance(Time now) {
  outcome_ = Outcome::kNothing;
  hear_packets(packets_, now);
  hear_packets(master_packets_, now);
  hear_claims(now);
  const bool due = start_by_ || client_.is_due(now) || probe_at_ <= now;
  if (due && !open(now)) return outcome_;
  if (retry_at_ <= now) retry_at_ = kNever;
  if (start_by_ && pod_) start(now);
  if (probe_at_ <= now) probe(now);
  if (client_.deadline() <= now) take(client_.tick(now), now);
  if (limit_at_ <= now) limit_address(now);
  return outcome_;
}

void Attachment::rest(Time now) noexcept {
  announce();
  if (!client_.listens(now) && client_.state() != Client::State::kProbing && !start_by_) close();
  pod_.reset();
}

void Attachment::hear_packets(std::optional<netlink::PacketSocket>& socket, Time now) {
  try {
    for (int i = 0; socket && i < kMaxAtOnce; ++i) {
      const auto packet = socket->receive();
      if (!packet) return;
      const auto payload = payload_of(packet->bytes, packet->checksum_pending);
      const auto message = payload ? decode(*payload) : std::nullopt;
      if (message) take(client_.receive(now, *message, packet->from), now);
    }
  } catch (const netlink::Error& e) {
    log(e.what());
    retire(socket);
  }
}

void Attachment::hear_claims(Time now) {
  try {
    for (int i = 0; claims_ && i < kMaxAtOnce; ++i) {
      const auto claim = claims_->take();
      if (!claim) return;
      if (claim->address != client_.offered() || claim->owner == client_.mac()) continue;
      log(cat("address ", claim->address.str(), " is in use: ", claim->owner.str(),
              " answers to it; declined"));
      retire(claims_);
      probe_at_ = kNever;
      take(client_.probed(now, false), now);
    }
  } catch (const netlink::Error& e) {
    log(e.what());
    retire(claims_);
  }
}

void Attachment::take(const Actions& actions, Time now) {
  if (!actions.lost.empty()) lose(actions.lost);
  for (const Outgoing& outgoing : actions.packets) send(outgoing);
  if (actions.probe) begin_probe(now);
  if (actions.bound) bind(now);
  if (!actions.refused.empty()) {
    refused_ = actions.refused;
    log(refused_);
    outcome_ = Outcome::kRefused;
  }
}

void Attachment::send(const Outgoing& outgoing) {
  if (!packets_) return;
  cni::noting_failure(state_.name(), [&] {  // as while the link is down: another one follows
    packets_->send(datagram_of(encode(outgoing.message), outgoing.ends), outgoing.to);
  });
}

void Attachment::begin_probe(Time now) {
  probes_ = 0;
  probe_at_ = now;
}

void Attachment::probe(Time now) {
  probe_at_ = kNever;
  if (client_.state() != Client::State::kProbing || !pod_) return;
  if (probes_ == kProbes) {
    retire(claims_);
    return take(client_.probed(now, true), now);
  }
  cni::noting_failure(state_.name(), [&] {
    if (!claims_) {
      claims_.emplace(pod_->ns, pod_->link.index, netlink::SegmentSocket::Protocol::kArp);
    }
    claims_->send(netlink::arp_probe(client_.mac(), client_.offered()));
  });
  ++probes_;
  probe_at_ = now + kBetweenProbes;
}

void Attachment::lose(const std::string& why) {
  const State before = state_;
  log(cat(why, before.lease ? cat("; ", before.lease->address.str(), " is removed from '",
                                  state_.owner.key.ifname, "'")
                            : ""));
  state_.lease.reset();
  outcome_ = Outcome::kChanged;
  cni::noting_failure(state_.name(), [&] {
    if (find()) configure(*pod_, before, state_);
  });
}

void Attachment::bind(Time now) {
  const State before = state_;
  state_.lease = client_.lease();
  const Lease& lease = *state_.lease;
  outcome_ = Outcome::kChanged;
  if (!acquiring_) limit_at_ = now;
  const bool alike = before.lease && configures_alike(*before.lease, lease);
  if (alike && !acquiring_) return;
  log(cat(before.lease && !acquiring_ ? cat("changed from ", before.lease->address.str(), " to ")
                                      : std::string("leased "),
          lease.address.str(), " from ", lease.server.str(), " ", period(lease, now)));
  unannounced_ = true;
  if (acquiring_ && lease.mtu == 0) return;
  cni::noting_failure(state_.name(), [&] {
    if (!find()) return;
    acquiring_ ? set_mtu(*pod_, lease) : configure(*pod_, before, state_);
  });
}

// The interface plugin adds the address after ADD of dhcp, nobody says when: the daemon looks for
// it after pauses that double, since a socket that hears of it would keep a removed namespace
// alive.
void Attachment::limit_address(Time now) {
  const Time pause = std::exchange(limit_pause_, Time(0));
  limit_at_ = kNever;
  if (!state_.lease) return;
  const bool is_over = cni::noting_failure(
      state_.name(), [&] { return !find() || set_lifetime(*pod_, *state_.lease, now); });
  if (is_over) return;
  limit_pause_ = std::max(2 * pause, kUntilAddress);
  limit_at_ = now + limit_pause_;
}

// Updates the neighbours that know the address as another pod's (RFC 5227, section 2.3).
void Attachment::announce() noexcept try {
  if (!std::exchange(unannounced_, false) || !state_.lease) return;
  if (!find()) return;
  netlink::SegmentSocket socket(pod_->ns, pod_->link.index, netlink::SegmentSocket::Protocol::kArp);
  socket.send(netlink::arp_announcement(pod_->link.mac, state_.lease->address.ip));
  close_aside(socket.take_fd());
} catch (const std::exception& e) {
  cni::note(cat(state_.name(), ": ", e.what()));
}

// The interface plugin gets the interface as dhcp did: a link that comes up with its addresses
// announces them. One of hardware would take seconds to come up once more.
void Attachment::settle() noexcept {
  if (!std::exchange(acquiring_, false) || !std::exchange(raised_, false)) return;
  try {
    const bool ended = client_.state() == Client::State::kIdle;
    if (find() && (ended || !pod_->link.kind.empty())) {
      pod_->socket.send(netlink::set_link(pod_->link, {.up = false}));
    }
  } catch (const std::exception& e) {
    cni::note(cat(state_.name(), ": ", e.what()));
  }
}

void Attachment::hand_over(Time now) noexcept {
  if (raised_) announce();  // as long as the interface is up
  settle();
  limit_pause_ = kUntilAddress;
  limit_at_ = now + kUntilAddress;
}

void Attachment::send_release(const Outgoing& outgoing) try {
  release_once(outgoing);
} catch (const netlink::Error& e) {
  // What the kernel lacked may be there again. Nobody asks a second time, and the server would keep
  // the address until the lease ends.
  cni::note(cat(state_.name(), ": release: ", e.what()));
  release_once(outgoing);
}

// Sends through the interface alone: any pod on the segment can play server, and the node reaches
// addresses that the pod does not.
void Attachment::release_once(const Outgoing& outgoing) {
  const std::string address = outgoing.message.ciaddr.str();
  if (!find()) {
    return log(cat("does not release ", address, ", since the interface '", state_.owner.key.ifname,
                   "' does not exist any more: the server has it until the lease ends"));
  }
  send_over(*pod_, outgoing);
  log(cat("released ", address));
}

void Attachment::release() noexcept {
  try {
    if (const auto outgoing = client_.release()) send_release(*outgoing);
  } catch (const std::exception& e) {
    cni::note(cat(state_.name(), ": release: ", e.what()));
  }
  settle();
  close();
  pod_.reset();
}

Time Attachment::deadline() const {
  return std::min({client_.deadline(), probe_at_, retry_at_, limit_at_});
}

}  // namespace dhcp
