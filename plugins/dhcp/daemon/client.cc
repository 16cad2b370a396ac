#include "plugins/dhcp/daemon/client.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "libcni/common/error.h"

namespace dhcp {

namespace {

using cni::cat;
using std::chrono::seconds;

// The first pause: a bridge or switch port may not forward yet.
constexpr Time kAtOnce = std::chrono::milliseconds(250), kQuickly = seconds(1);
constexpr Time kListening = seconds(10);
constexpr Time kAfterDecline = seconds(10);  // RFC 2131, section 3.1, step 5
constexpr unsigned kMaxRequests = 3, kMaxReboots = 3;
constexpr std::uint16_t kMaximumSize = 1500;

Ip any_address() { return Ip::any(netlink::Family::kIpv4); }
Ip everybody() { return any_address().broadcast(0); }

Bytes bytes_of(const Ip& ip) { return {ip.data(), ip.data() + ip.size()}; }

Outgoing to_everybody(Message message) {
  return {std::move(message), {any_address(), everybody()}};
}

// Renewals wait for half of the time left, but not too briefly (RFC 2131, section 4.4.5: a minute;
// less for a lease of less than ten).
Time pause_before(Time end, Time now, const Lease& lease) {
  const Time least = std::clamp<Time>((lease.expire - lease.renew) / 5, seconds(1), seconds(60));
  return std::max((end - now) / 2, least);
}

}  // namespace

std::string_view str(Client::State state) {
  constexpr std::string_view kNames[] = {"idle",       "waiting",   "selecting",
                                         "requesting", "rebooting", "probing",
                                         "bound",      "renewing",  "rebinding"};
  return kNames[static_cast<std::size_t>(state)];
}

Client::Client(Identity identity, Timing timing, Random random)
    : identity_(std::move(identity)), timing_(timing), random_(std::move(random)) {}

Message Client::base(MessageType type, Time now) const {
  const auto elapsed = std::chrono::duration_cast<seconds>(now - begun_).count();
  Message out{.xid = xid_,
              .seconds = static_cast<std::uint16_t>(
                  std::clamp<std::int64_t>(elapsed, 0, std::numeric_limits<std::uint16_t>::max())),
              .broadcast = identity_.broadcast,
              .chaddr = mac_};
  if (type == MessageType::kDiscover || type == MessageType::kRequest) {
    out.options = identity_.provided;
    out.options[option::kParameterList] = identity_.wanted;
    out.options[option::kMaximumSize] = {kMaximumSize >> 8, kMaximumSize & 0xff};
  }
  out.options.try_emplace(option::kClientId, identity_.client_id);
  out.set_type(type);
  return out;
}

void Client::begin(State state, Time now) {
  state_ = state;
  xid_ = random_();
  begun_ = now;
  tries_ = 0;
}

void Client::wait(Time now, Time length) {
  sent_ = now;
  next_ = now + length;
  listen_until_ = now + std::min(length, kListening);
}

// Up to a second more or less, so that clients that started together do not go on together (RFC
// 2131, section 4.1).
Time Client::jittered(Time length) {
  if (length < seconds(2)) return length;
  return length - seconds(1) + Time(random_() % 2001);
}

void Client::wait_longer(Time now) {
  wait(now, jittered(interval_));
  const Time next = interval_ < kQuickly        ? kQuickly
                    : interval_ < timing_.first ? timing_.first
                                                : interval_ * 2;
  interval_ = std::min(next, timing_.most);
}

void Client::send_discover(Time now, Actions& actions) {
  Message message = base(MessageType::kDiscover, now);
  if (preferred_) message.options[option::kRequestedAddress] = bytes_of(*preferred_);
  actions.packets.push_back(to_everybody(std::move(message)));
  wait_longer(now);
}

void Client::send_request(Time now, Actions& actions) {
  Message message = base(MessageType::kRequest, now);
  message.options[option::kRequestedAddress] = bytes_of(offered_);
  if (state_ == State::kRequesting) message.options[option::kServerId] = bytes_of(server_);
  actions.packets.push_back(to_everybody(std::move(message)));
  ++tries_;
  wait_longer(now);
}

void Client::send_renewal(Time now, Actions& actions) {
  Message message = base(MessageType::kRequest, now);
  message.ciaddr = lease_->address.ip;
  message.broadcast = false;  // the server can reach the address
  const bool any_server = state_ == State::kRebinding;
  actions.packets.push_back(
      {.message = std::move(message),
       .ends = {lease_->address.ip, any_server ? everybody() : lease_->server},
       .to = any_server ? std::nullopt : lease_->server_mac});
  const Time end = any_server ? lease_->expire : lease_->rebind;
  wait(now, std::min(pause_before(end, now, *lease_), end - now));
}

Actions Client::discover(Time now, std::optional<Ip> preferred) {
  Actions out;
  preferred_ = preferred;
  begin(State::kSelecting, now);
  interval_ = kAtOnce;
  send_discover(now, out);
  return out;
}

Actions Client::reboot(Time now, const Ip& address) {
  Actions out;
  offered_ = address;
  preferred_ = address;
  begin(State::kRebooting, now);
  interval_ = kAtOnce;
  send_request(now, out);
  return out;
}

void Client::resume(const Lease& lease) {
  lease_ = lease;
  state_ = State::kBound;
  next_ = lease.renew;
  listen_until_ = Time(0);
}

// A new DISCOVER, at once the first time.
void Client::restart(Time now, Actions& actions) {
  if (failures_ == 0) {
    begin(State::kSelecting, now);
    interval_ = kQuickly;
    send_discover(now, actions);
  } else {
    constexpr unsigned kMaxDoublings = 6;
    state_ = State::kWaiting;
    next_ = now + jittered(seconds(1) * (1U << std::min(failures_ - 1, kMaxDoublings)));
    listen_until_ = Time(0);
  }
  ++failures_;
}

void Client::give_up_lease(Time now, const std::string& why, Actions& actions) {
  actions.lost = why;
  lease_.reset();
  failures_ = 0;
  restart(now, actions);
}

Actions Client::tick(Time now) {
  Actions out;
  if (now < next_) {  // only the time to listen is over
    if (listen_until_ <= now) listen_until_ = Time(0);
    return out;
  }
  switch (state_) {
    case State::kWaiting:
      begin(State::kSelecting, now);
      interval_ = timing_.first;
      [[fallthrough]];
    case State::kSelecting:
      send_discover(now, out);
      break;
    case State::kRequesting:
    case State::kRebooting:
      if (tries_ < (state_ == State::kRequesting ? kMaxRequests : kMaxReboots)) {
        send_request(now, out);
        break;
      }
      problem_ = cat("nobody answered the request for ", offered_.str());
      begin(State::kSelecting, now);
      interval_ = timing_.first;
      send_discover(now, out);
      break;
    case State::kBound:
    case State::kRenewing:
    case State::kRebinding:
      keep(now, out);
      break;
    case State::kIdle:
    case State::kProbing:
      next_ = kNever;
      break;
  }
  return out;
}

// Renews the lease, or sees it end.
void Client::keep(Time now, Actions& actions) {
  if (now >= lease_->expire) {
    preferred_ = lease_->address.ip;
    return give_up_lease(now, "the lease expired", actions);
  }
  if (state_ == State::kBound) begin(State::kRenewing, now);
  if (now >= lease_->rebind && state_ != State::kRebinding) begin(State::kRebinding, now);
  send_renewal(now, actions);
}

bool Client::is_mine(const Message& message) const {
  return message.reply && message.xid == xid_ && message.chaddr == mac_;
}

Actions Client::receive(Time now, const Message& message, const Mac& from) {
  Actions out;
  if (!is_mine(message)) return out;
  const auto type = message.type();
  const auto server = ip_in(message.options, option::kServerId);
  switch (state_) {
    case State::kSelecting:
      if (type == MessageType::kOffer) take_offer(now, message, out);
      break;
    case State::kRequesting:
      if (server != server_) break;
      [[fallthrough]];
    case State::kRebooting:
    case State::kRenewing:
    case State::kRebinding:
      if (state_ == State::kRenewing && server != lease_->server) break;
      if (type == MessageType::kAck) take_ack(now, message, from, out);
      if (type == MessageType::kNak) take_nak(now, message, out);
      break;
    case State::kIdle:
    case State::kWaiting:
    case State::kProbing:
    case State::kBound:
      break;
  }
  return out;
}

void Client::take_offer(Time now, const Message& message, Actions& actions) {
  const auto server = ip_in(message.options, option::kServerId);
  if (!server || message.yiaddr.is_unspecified()) {
    problem_ = "an offer without address or server identifier";
    return;
  }
  if (!can_serve(*server, message.yiaddr)) {
    problem_ =
        cat("an offer with the server identifier ", server->str(), ", which no server can have");
    return;
  }
  offered_ = message.yiaddr;
  server_ = *server;
  state_ = State::kRequesting;
  tries_ = 0;
  interval_ = kQuickly;
  problem_ = cat("server ", server_.str(), " offered ", offered_.str());
  send_request(now, actions);
}

void Client::take_ack(Time now, const Message& message, const Mac& from, Actions& actions) {
  const bool is_new = state_ == State::kRequesting || state_ == State::kRebooting;
  if (is_new && message.yiaddr != offered_) return;  // of what nobody asked for
  Lease lease;
  try {
    lease = lease_of(message, sent_);
  } catch (const cni::Error& e) {
    problem_ = actions.refused = e.what();
    if (!is_new) return;  // the lease goes on as it is
    if (auto released = release()) actions.packets.push_back(*std::move(released));
    restart(now, actions);
    return;
  }
  if (!from.is_multicast() && !from.is_zero()) lease.server_mac = from;
  listen_until_ = Time(0);
  if (!identity_.probe || !(lease_ ? lease_->address.ip != lease.address.ip : is_new)) {
    return bind(std::move(lease), actions);
  }
  offered_ = lease.address.ip;
  server_ = lease.server;
  probing_ = std::move(lease);
  state_ = State::kProbing;
  next_ = kNever;
  actions.probe = true;
}

void Client::bind(Lease lease, Actions& actions) {
  lease_ = std::move(lease);
  state_ = State::kBound;
  next_ = lease_->renew;
  listen_until_ = Time(0);
  failures_ = 0;
  problem_.clear();
  actions.bound = true;
}

Actions Client::probed(Time now, bool is_free) {
  Actions out;
  if (state_ != State::kProbing || !probing_) return out;
  Lease lease = *std::exchange(probing_, std::nullopt);
  if (is_free) {
    bind(std::move(lease), out);
    return out;
  }
  Message message = base(MessageType::kDecline, now);
  message.options[option::kRequestedAddress] = bytes_of(lease.address.ip);
  message.options[option::kServerId] = bytes_of(lease.server);
  out.packets.push_back(to_everybody(std::move(message)));
  problem_ = cat("address ", lease.address.ip.str(), " is in use by another node on the link");
  if (lease_) out.lost = cat("renewed with ", problem_);
  lease_.reset();
  preferred_.reset();
  state_ = State::kWaiting;
  next_ = now + kAfterDecline;
  return out;
}

void Client::take_nak(Time now, const Message& message, Actions& actions) {
  const std::string said = text_in(message.options, option::kMessage);
  const auto server = ip_in(message.options, option::kServerId);
  problem_ = cat("server ", server ? server->str() : "", " refused the request (DHCPNAK)",
                 said.empty() ? "" : ": ", said);
  preferred_.reset();
  if (lease_) return give_up_lease(now, problem_, actions);
  restart(now, actions);
}

std::optional<Outgoing> Client::release() {
  const bool asked = state_ == State::kRequesting || state_ == State::kProbing;
  std::optional<Outgoing> out;
  if (lease_ || asked) {
    const Ip address = lease_ ? lease_->address.ip : offered_;
    const Ip server = lease_ ? lease_->server : server_;
    xid_ = random_();
    Message message = base(MessageType::kRelease, begun_);
    message.broadcast = false;
    message.ciaddr = address;
    message.options[option::kServerId] = bytes_of(server);
    out = Outgoing{.message = std::move(message),
                   .ends = {address, server},
                   .to = lease_ ? lease_->server_mac : std::nullopt};
  }
  lease_.reset();
  probing_.reset();
  state_ = State::kIdle;
  next_ = kNever;
  listen_until_ = Time(0);
  return out;
}

Time Client::deadline() const {
  return listen_until_ > Time(0) ? std::min(next_, listen_until_) : next_;
}

}  // namespace dhcp
