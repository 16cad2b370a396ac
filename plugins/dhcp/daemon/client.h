#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/dhcp/protocol/lease.h"

namespace dhcp {

/// The time to wait for an answer: the first one, and the maximum as it doubles.
struct Timing {
  Time first = std::chrono::seconds(4), most = std::chrono::seconds(62);
};

/// A message to send.
struct Outgoing {
  Message message;
  Endpoints ends;
  std::optional<Mac> to = {};  ///< absent: to everybody
};

/// The actions that are due, in this order.
struct Actions {
  std::string lost = {};  ///< the address must not be used any more, and why
  std::vector<Outgoing> packets = {};
  bool probe = false;        ///< offered() is to be probed for: answer by probed()
  bool bound = false;        ///< lease() is new, or was renewed
  std::string refused = {};  ///< the server's answer is of no use, and why
};

/// A client of RFC 2131 as a pure state machine: time and messages in, messages and deadlines out.
class Client {
 public:
  using Random = std::function<std::uint32_t()>;
  enum class State {
    kIdle,
    kWaiting,  ///< for its next DISCOVER
    kSelecting,
    kRequesting,
    kRebooting,
    kProbing,
    kBound,
    kRenewing,
    kRebinding
  };

  Client(Identity identity, Timing timing, Random random);

  /// Frames are sent from and to this address from now on.
  void set_mac(const Mac& mac) { mac_ = mac; }
  /// Answers are to be sent to everybody.
  void set_broadcast() { identity_.broadcast = true; }
  /// INIT: asks for any address, preferably for that one.
  Actions discover(Time now, std::optional<Ip> preferred = {});
  /// INIT-REBOOT: whether the address may still be used; else for any.
  Actions reboot(Time now, const Ip& address);
  /// Goes on with a lease of an earlier process; the first tick() does what is due.
  void resume(const Lease& lease);
  Actions receive(Time now, const Message& message, const Mac& from);
  /// \pre now is not before deadline().
  Actions tick(Time now);
  /// In kProbing: whether nobody has the address.
  Actions probed(Time now, bool is_free);
  /// The RELEASE of what it has or asked for, if there is anything; then it is idle.
  std::optional<Outgoing> release();

  /// When tick() is to be called; kNever.
  Time deadline() const;
  /// Whether tick() is going to send something.
  bool is_due(Time now) const { return next_ <= now; }
  /// Whether an answer is waited for: otherwise nothing has to be heard.
  bool listens(Time now) const { return now < listen_until_; }

  State state() const { return state_; }
  const std::optional<Lease>& lease() const { return lease_; }
  const Ip& offered() const { return offered_; }
  const Mac& mac() const { return mac_; }
  const Identity& identity() const { return identity_; }
  /// Why there is no lease yet, for an error.
  const std::string& problem() const { return problem_; }

 private:
  Message base(MessageType type, Time now) const;
  void begin(State state, Time now);
  void wait(Time now, Time length);
  void wait_longer(Time now);
  Time jittered(Time length);
  void restart(Time now, Actions& actions);
  void send_discover(Time now, Actions& actions);
  void send_request(Time now, Actions& actions);
  void send_renewal(Time now, Actions& actions);
  void take_offer(Time now, const Message& message, Actions& actions);
  void take_ack(Time now, const Message& message, const Mac& from, Actions& actions);
  void take_nak(Time now, const Message& message, Actions& actions);
  void bind(Lease lease, Actions& actions);
  void keep(Time now, Actions& actions);
  void give_up_lease(Time now, const std::string& why, Actions& actions);
  bool is_mine(const Message& message) const;

  Identity identity_;
  Timing timing_;
  Random random_;
  Mac mac_;
  State state_ = State::kIdle;
  std::optional<Lease> lease_;
  Ip offered_ = Ip::any(netlink::Family::kIpv4);
  Ip server_ = offered_;
  std::optional<Ip> preferred_;
  std::optional<Lease> probing_;
  std::uint32_t xid_ = 0;
  Time begun_{}, sent_{}, next_ = kNever, listen_until_{}, interval_{};
  unsigned tries_ = 0, failures_ = 0;
  std::string problem_;
};

std::string_view str(Client::State state);

}  // namespace dhcp
