#include "plugins/flannel/state.h"

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "libcni/config/json.h"
#include "libcni/plugin/invoke.h"

namespace flannel {

namespace {

using netlink::cat;
using netlink::Fd;

// The first is for everybody, but not on every file system; the second for root on most others.
constexpr const char* kAttributes[] = {"user.patchbay.ifname", "trusted.patchbay.ifname"};

// A network's name has no colon, nor has a container's ID.
std::string second_name(const cni::Request& request) {
  return cat(request.container_id, ":", request.ifname);
}

// Its first character is none that a container's ID starts with.
std::string aside_name(const cni::Request& request) {
  return cat(".", second_name(request), ".new");
}

void sync(int fd, const std::string& path) {
  if (::fsync(fd) != 0 && errno != EINVAL) throw netlink::Error(cat("fsync '", path, "'"), errno);
}

std::string text_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Whether a delegate can be called with it.
bool is_sound(const nlohmann::json& config) {
  return config.is_object() && !text_at(config, "name").empty() &&
         cni::is_plugin_name(text_at(config, "type"));
}

bool is_of(const State& state, const cni::Request& request) {
  if (state.config.empty()) return true;  // whoever it belonged to cannot use it
  const std::string& ifname = state.key.ifname;
  return state.key.network == request.network && (ifname.empty() || ifname == request.ifname);
}

}  // namespace

std::optional<StateFiles> StateFiles::find(const std::string& path) {
  auto dir = cni::Dir::open(path);
  if (!dir) return std::nullopt;
  return StateFiles(std::move(*dir));
}

StateFiles StateFiles::create(const std::string& path) {
  return StateFiles(cni::Dir::create(path, 0700));
}

std::string StateFiles::ifname_of(const std::string& name) const {
  if (const auto colon = name.find(':'); colon != name.npos) return name.substr(colon + 1);
  char value[64];
  for (const char* const attribute : kAttributes) {
    const ssize_t size = ::lgetxattr(path_of(name).c_str(), attribute, value, sizeof value);
    if (size >= 0) return {value, static_cast<std::size_t>(size)};
  }
  return {};
}

std::optional<State> StateFiles::read(const std::string& name) const {
  State out{.name = name, .key = {"", name.substr(0, name.find(':')), ""}};
  const auto file = dir_.read(name);
  if (!file) return dir_.has(name) ? std::optional(out) : std::nullopt;
  const auto config = cni::try_parse_json(file->content);
  if (config.is_discarded()) return out;
  if (!is_sound(config)) {  // no torn file: only the version that wrote it can call the delegate
    throw cni::Error(cni::Code::kInternal,
                     cat("read '", path_of(name),
                         "': this version of patchbay does not understand it (expected `name` and "
                         "`type`): install the version that wrote it"));
  }
  out.config = file->content;
  out.modified = file->modified;
  out.key.network = text_at(config, "name");
  out.key.ifname = ifname_of(name);
  return out;
}

std::optional<State> StateFiles::of(const cni::Request& request) const {
  for (const std::string& name : {second_name(request), request.container_id}) {
    const auto state = read(name);
    if (state && is_of(*state, request)) return state;
  }
  return std::nullopt;
}

void StateFiles::put(const cni::Request& request, const std::string& config) const {
  const auto first = read(request.container_id);
  const bool is_free = !first || (is_of(*first, request) && dir_.read(first->name));
  const std::string name = is_free ? request.container_id : second_name(request);
  write(name, aside_name(request), request, config);
  sync(dir_.fd(), dir_.path());
}

void StateFiles::write(const std::string& name, const std::string& aside,
                       const cni::Request& request, const std::string& config) const {
  dir_.remove(aside);  // of an ADD that was killed
  const Fd fd(::openat(dir_.fd(), aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) throw netlink::Error(cat("make '", path_of(aside), "'"), errno);
  try {
    netlink::write_all(fd.get(), config, path_of(aside));
    for (const char* const attribute : kAttributes) {
      const std::string& ifname = request.ifname;
      if (::fsetxattr(fd.get(), attribute, ifname.data(), ifname.size(), 0) == 0) break;
    }
    sync(fd.get(), path_of(aside));
    if (::renameat(dir_.fd(), aside.c_str(), dir_.fd(), name.c_str()) != 0) {
      throw netlink::Error(cat("replace '", path_of(name), "'"), errno);
    }
  } catch (...) {
    ::unlinkat(dir_.fd(), aside.c_str(), 0);
    throw;
  }
}

void StateFiles::remove(const cni::Request& request, const std::string& name) const {
  dir_.remove(aside_name(request));
  if (name.empty()) return;
  try {
    dir_.remove(name);
  } catch (const netlink::Error& e) {
    if (e.error() != EISDIR) throw;
    dir_.remove_dir(name);  // somebody else's, if there is something in it
  }
}

std::vector<State> StateFiles::all() const {
  std::vector<State> out;
  for (const std::string& name : dir_.names()) {
    if (name.starts_with('.')) continue;
    try {
      auto state = read(name);
      if (state && !state->config.empty()) out.push_back(*std::move(state));
    } catch (const cni::Error& e) {
      cni::note(e.what());
    }
  }
  return out;
}

}  // namespace flannel
