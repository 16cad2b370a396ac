#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcni/common/dir.h"
#include "libcni/common/undo.h"
#include "libcni/config/conf.h"
#include "libcni/plugin/collect.h"
#include "libcni/plugin/request.h"
#include "netlink/route/socket.h"

/// State files of plugins that are chained: one per attachment on the node, written before the
/// first change and removed by DEL, so that DEL needs neither prevResult nor the interface, and
/// changes no other pod that has the path of the namespace by then.
namespace plugins {

/// Whose a state is, and in which namespace it holds.
struct StateOwner {
  std::string network = {}, container_id = {}, ifname = {};
  std::string netns = {};    ///< CNI_NETNS
  std::uint64_t cookie = 0;  ///< RouteSocket::cookie() of it; 0: unknown
  bool operator==(const StateOwner&) const = default;

  /// Whether the namespace is the one of that cookie; true where the kernel does not say.
  bool is_in(std::uint64_t pod_cookie) const;
};
/// Whether the pod exists: its namespace is still at the path. A pod can rename its interface.
bool lives(const StateOwner& owner);
StateOwner state_owner(const cni::Request& request, const netlink::RouteSocket& pod);

/// The owner's keys of a state file.
nlohmann::json json_of(const StateOwner& owner);
/// \throws cni::Error for another content.
StateOwner owner_from(const cni::Reader& root);

/// The files of a State, a plugin's own: it has `owner`, kDir, file_name(), text(), and
/// from(text), which is nothing for a torn file.
template <class State>
class StateDir {
 public:
  static std::optional<StateDir> find() {
    auto dir = cni::Dir::open(State::kDir);
    if (!dir) return std::nullopt;
    return StateDir(std::move(*dir));
  }
  static StateDir create() { return StateDir(cni::Dir::create(State::kDir)); }

  std::optional<State> read(const std::string& file) const {
    const auto found = dir_.read(file);
    return found ? State::from(found->content) : std::nullopt;
  }
  /// GC: the states of attachments that are not valid.
  std::vector<State> taken_by(cni::Collect& collect) const {
    auto out = all();
    std::erase_if(out, [&](const State& state) {
      const auto& [network, id, ifname, netns, cookie] = state.owner;
      const std::string what = cni::cat("state file ", State::kDir, "/", state.file_name());
      return !collect.takes(what, network, {id, ifname}, lives(state.owner));
    });
    return out;
  }
  std::vector<State> all() const {
    std::vector<State> out;
    for (const std::string& name : dir_.names()) {
      auto state = read(name);
      if (state && state->file_name() == name) out.push_back(*std::move(state));
    }
    return out;
  }
  /// Whether another attachment's state is of that interface in the namespace with the cookie.
  bool is_of_another(const cni::Request& request, std::uint64_t pod_cookie) const {
    for (const State& state : all()) {
      const StateOwner& owner = state.owner;
      const bool is_here = owner.ifname == request.ifname && owner.cookie == pod_cookie;
      const bool is_same =
          owner.container_id == request.container_id && owner.network == request.network;
      if (pod_cookie != 0 && is_here && !is_same) return true;
    }
    return false;
  }
  void put(const State& state) const {
    const std::string name = state.file_name();
    if (!dir_.publish(name, state.text())) dir_.replace(name, state.text(), cni::Dir::kAside);
  }
  void remove(const std::string& file) const {
    dir_.remove(file);
    dir_.remove(cni::Dir::kAside);  // of a process that was killed
  }

 private:
  explicit StateDir(cni::Dir dir) : dir_(std::move(dir)) {}
  cni::Dir dir_;
};

/// Undo step of ADD.
template <class State>
struct RestoreState {
  State state;
  bool is_new;
  void operator()() const {
    const auto states = StateDir<State>::create();
    is_new ? states.remove(state.file_name()) : states.put(state);
  }
  std::string describe() const { return "restore the state"; }
};

/// Writes the state that replaces an earlier one, or nothing where it is the same.
template <class State>
void put_state(const StateDir<State>& states, const std::optional<State>& earlier,
               const State& state, cni::Undo& undo) {
  if (earlier == state) return;
  undo.add(RestoreState<State>{earlier.value_or(state), !earlier});
  states.put(state);
}

}  // namespace plugins
