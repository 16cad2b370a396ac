#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/devices/agent/nri/events.h"
#include "plugins/devices/agent/nri/frames.h"

namespace devices::nri {

/// The runtime calls plugins in the order of their indexes, two digits each. A name has letters,
/// digits and "_.+-".
struct Identity {
  std::string name, index;
};

/// What the runtime says of itself; config is the text of its file for a pre-installed plugin.
struct Configuration {
  std::string config, runtime, version;
};

/// A plugin: what it wants to hear, and what it does then. A call that is refused by an exception
/// fails in the runtime, except that stopping a pod goes on.
struct Plugin {
  std::uint32_t events = kSandboxEvents;  ///< bits; never 0, which the runtime takes for all
  std::function<void(const Configuration&)> configured = {};
  /// All sandboxes that exist.
  std::function<void(std::vector<Sandbox>)> synchronized = {};
  /// An event of the mask; container is null for a sandbox's.
  std::function<void(Event, const Sandbox&, const Container*)> happened = {};
  /// What to add to a container; an exception refuses its creation.
  std::function<Adjustment(const Sandbox&, const Container&)> create = {};
};

/// One connection to a runtime, as bytes in and bytes out: registers the plugin and answers calls.
class Session {
 public:
  /// plugin outlives it.
  Session(const Identity& identity, const Plugin& plugin);

  /// Takes bytes of the runtime. \throws cni::Error where they break the protocol, or the runtime
  /// refuses the registration: the connection has to be closed.
  void receive(std::string_view bytes);
  /// What has to be sent.
  std::string take() { return std::exchange(out_, {}); }

  /// Whether the runtime has listed all sandboxes: events follow.
  bool is_synchronized() const { return is_synchronized_; }
  /// How many calls have come.
  std::size_t calls() const { return count_; }
  /// Whether a part of a message has come.
  bool is_partial() const {
    return frames_.is_partial() || calls_.is_partial() || answers_.is_partial();
  }

 private:
  void serve(const Message& call);
  std::string answer_to(std::string_view method, const std::string& payload);
  std::string configure(const std::string& payload);
  std::string synchronize(const std::string& payload);
  std::string state_change(const std::string& payload);
  std::string create(const std::string& payload);
  void happen(Event event, const Sandbox& sandbox, const Container* container);
  void read_answer(const Message& answer);

  const Plugin& plugin_;
  FrameReader frames_;
  MessageReader calls_, answers_;
  std::string out_;
  std::vector<Sandbox> listed_;  ///< by Synchronize, until its last part
  bool is_synchronized_ = false;
  std::size_t count_ = 0;  ///< of calls
};

}  // namespace devices::nri
