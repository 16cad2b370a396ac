#pragma once

#include <array>
#include <optional>
#include <string>

#include "netlink/address_claim.h"
#include "netlink/packet_socket.h"
#include "plugins/dhcp/daemon/client.h"
#include "plugins/dhcp/daemon/pod.h"
#include "plugins/state/dhcp_lease.h"

namespace dhcp {

/// An attachment of the daemon's: its client, and the sockets in its pod for as long as an answer
/// is waited for.
class Attachment {
 public:
  /// The outcome of advance().
  enum class Outcome {
    kNothing,
    kChanged,  ///< state() has another lease, or none any more
    kRefused,  ///< the server gave what cannot be used: refused()
    kGone      ///< the namespace or the interface was removed
  };

  Attachment(State state, Timing timing);
  ~Attachment() { close(); }
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  /// ADD: sets the interface up, if it is not, and asks for an address; whether for the one that it
  /// had. \throws netlink::Error; cni::Error where there is no such interface.
  void acquire(Time now, std::optional<Ip> known);
  /// Takes over the lease of another daemon, of which no more is known than what ADD returned: asks
  /// all servers about it. False where the interface does not have the address.
  /// \throws netlink::Error.
  bool adopt(Time now, const cni::Result& result);
  /// Goes on with the lease in state(), or asks for one. False where the interface does not exist
  /// any more. \throws netlink::Error.
  bool resume(Time now);
  /// Does what is due: hears what came, and sends. rest() is to follow.
  Outcome advance(Time now);
  /// Work that nobody waits for: announces a new address, closes sockets that are not needed until
  /// deadline().
  void rest(Time now) noexcept;
  /// ADD gets its answer: the interface is as ADD found it again, since the interface plugin sets
  /// it up. Until then a lease can be given back over it. The address that it is about to get
  /// will have the lease's lifetime.
  void hand_over(Time now) noexcept;
  /// Ends it: gives back what it has or asked for. The interface is left as ADD found it.
  /// Failures are logged, not thrown.
  void release() noexcept;

  /// When advance() is to be called although nothing came.
  Time deadline() const;
  using Fds = std::array<int, 3>;
  /// The descriptors to watch; -1: none.
  Fds fds() const;

  const State& state() const { return state_; }
  const Client& client() const { return client_; }
  /// Whether the path leads elsewhere by now. By one system call.
  bool has_lost_namespace() const noexcept;
  const std::string& problem() const { return client_.problem(); }
  /// The reason why the last lease cannot be used; problem() may be about a later offer.
  const std::string& refused() const { return refused_; }

 private:
  /// Whether pod_ is there. \throws netlink::Error.
  bool find();
  /// Opens what is needed to send; false where there is no interface any more.
  bool open(Time now);
  void listen_on_master();
  void close() noexcept;
  void start(Time now);
  void take(const Actions& actions, Time now);
  void lose(const std::string& why);
  void bind(Time now);
  void send(const Outgoing& outgoing);
  void release_once(const Outgoing& outgoing);
  void send_release(const Outgoing& outgoing);
  void begin_probe(Time now);
  void probe(Time now);
  void hear_packets(std::optional<netlink::PacketSocket>& socket, Time now);
  void hear_claims(Time now);
  void limit_address(Time now);
  void announce() noexcept;
  void settle() noexcept;
  void log(std::string_view text) const;

  State state_;
  Client client_;
  std::optional<OpenInterface> pod_;  ///< until rest()
  std::optional<netlink::PacketSocket> packets_;
  std::optional<netlink::PacketSocket> master_packets_;  ///< on an ipvlan's master, to receive
  std::optional<netlink::SegmentSocket> claims_;
  bool acquiring_ = false;
  bool raised_ = false;           ///< the interface was down before ADD
  std::optional<Time> start_by_;  ///< the interface is waited for, to come up
  std::optional<Ip> known_;
  std::optional<netlink::NetNs::Id> netns_;
  bool unannounced_ = false;  ///< the address of the lease
  unsigned probes_ = 0;
  Time probe_at_ = kNever, retry_at_ = kNever;
  Time limit_at_ = kNever, limit_pause_{};  ///< when the address is looked for once more
  Outcome outcome_ = Outcome::kNothing;
  std::string refused_;
};

}  // namespace dhcp
