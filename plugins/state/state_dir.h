#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcni/common/dir.h"
#include "libcni/common/lock.h"
#include "libcni/common/undo.h"
#include "libcni/plugin/collect.h"
#include "plugins/state/owner.h"

/// State files of plugins: one per attachment on the node, written before the first change and
/// removed by DEL, so that DEL needs neither prevResult nor the interface, and changes no other pod
/// that has the path of the namespace by then.
namespace plugins {

/// The name of the file: State::file_of() where a plugin names its files itself.
template <class State>
std::string state_file_of(const StateOwner& owner) {
  if constexpr (requires { State::file_of(owner); }) {
    return State::file_of(owner);
  } else {
    return owner.key.tag();
  }
}

/// The files of a State, a plugin's own: it has `owner`, kDir, text(), and from(text), which is
/// nothing for a torn file and throws for other JSON. state/fields.h writes and reads the text.
template <class State>
class StateDir {
 public:
  /// nullopt if the directory does not exist.
  static std::optional<StateDir> find(const std::string& path = State::kDir) {
    auto dir = cni::Dir::open(path);
    return dir ? std::optional(StateDir(std::move(*dir))) : std::nullopt;
  }
  /// \throws netlink::Error, on a read-only file system for one.
  static StateDir create(const std::string& path = State::kDir) {
    return StateDir(cni::Dir::create(path));
  }

  const cni::Dir& dir() const { return dir_; }
  const std::string& path() const { return dir_.path(); }
  bool is_removed() const { return dir_.is_removed(); }
  /// For calls that must not overlap. \throws cni::Error(kTryAgainLater).
  netlink::Fd lock() const { return cni::take_lock(dir_); }

  /// nullopt without a file, and for a torn one. \throws cni::Error for JSON that is no State.
  std::optional<State> read(const StateOwner& owner) const { return read_file(file_of(owner)); }
  std::optional<State> read_file(const std::string& name) const {
    const auto found = dir_.read(name);
    if (!found) return std::nullopt;
    return cni::during(cni::cat("read '", path(), "/", name, "'"),
                       [&] { return State::from(found->content); });
  }
  /// The same; a torn file is removed.
  std::optional<State> read_or_remove(const StateOwner& owner) const {
    auto state = read(owner);
    if (!state) remove(owner);
    return state;
  }
  /// Without those that read() throws for, which are noted.
  std::vector<State> all() const {
    return all_and([](const std::string&) {});
  }
  /// The same; what is no state is removed, if it is a file. For a directory without lock.
  std::vector<State> all_removing_others() const {
    return all_and([&](const std::string& name) {
      cni::note(cni::cat("remove '", path(), "/", name, "': it is no state, or of another boot"));
      cni::noting_failure(path(), [&] { dir_.remove(name); });  // "lost+found"
    });
  }
  /// GC: the states of attachments that are not valid.
  std::vector<State> taken_by(cni::Collect& collect) const {
    auto out = all();
    std::erase_if(out, [&](const State& state) {
      const StateOwner& owner = state.owner;
      const std::string what = cni::cat("state file ", path(), "/", file_of(owner));
      return !collect.takes(what, owner.key, life_of(owner));
    });
    return out;
  }
  /// Whether another attachment's state is of that interface in the namespace with the cookie.
  bool is_of_another(const cni::Request& request, std::uint64_t pod_cookie) const {
    for (const State& state : all()) {
      const StateOwner& owner = state.owner;
      const bool is_here = owner.key.ifname == request.ifname && owner.cookie == pod_cookie;
      if (pod_cookie != 0 && is_here && owner.key != request.key()) return true;
    }
    return false;
  }
  /// Written aside and renamed, under a name of its own: not every plugin locks.
  void put(const State& state) const {
    const std::string name = file_of(state.owner), aside = aside_of(name);
    if (!dir_.publish(name, state.text(), aside)) dir_.replace(name, state.text(), aside);
  }
  void remove(const StateOwner& owner) const {
    dir_.remove(file_of(owner));
    dir_.remove(aside_of(file_of(owner)));  // of a process that was killed
  }

 private:
  explicit StateDir(cni::Dir dir) : dir_(std::move(dir)) {}
  static std::string file_of(const StateOwner& owner) { return state_file_of<State>(owner); }
  static std::string aside_of(const std::string& name) { return cni::cat(name, ".new"); }
  template <class Fn>
  std::vector<State> all_and(Fn&& other) const {
    std::vector<State> out;
    for (const std::string& name : dir_.names()) {
      try {
        auto state = read_file(name);
        if (state && file_of(state->owner) == name) {
          out.push_back(*std::move(state));
        } else {
          other(name);
        }
      } catch (const cni::Error& e) {
        cni::note(e.what());
      }
    }
    return out;
  }
  cni::Dir dir_;
};

/// Undo step of ADD.
template <class State>
struct RestoreState {
  std::string dir;
  State state;
  bool is_new;
  void operator()() const {
    const auto states = StateDir<State>::create(dir);
    is_new ? states.remove(state.owner) : states.put(state);
  }
  std::string describe() const { return "restore the state file"; }
};

/// Writes the state that replaces an earlier one, or nothing where it is the same.
template <class State>
void put_state(const StateDir<State>& states, const std::optional<State>& earlier,
               const State& state, cni::Undo& undo) {
  if (earlier == state) return;
  undo.add(RestoreState<State>{states.path(), earlier.value_or(state), !earlier});
  states.put(state);
}

}  // namespace plugins
