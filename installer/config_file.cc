#include "installer/config_file.h"

#include <algorithm>

#include "installer/folder.h"
#include "libcni/common/error.h"
#include "libcni/runtime/conflist.h"

namespace installer {

namespace {

constexpr unsigned kReadable = 0644;

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string content_of(const std::string& path) {
  auto out = netlink::read_regular_file(path);
  if (!out) throw netlink::Error(cat("read '", path, "'"), ENOENT);
  return *std::move(out);
}

// Runtimes take the first of these in the order of names (libcni's ConfFiles).
bool is_network_file(std::string_view name) {
  return name.ends_with(".conflist") || name.ends_with(".conf") || name.ends_with(".json");
}

[[noreturn]] void refuse(const std::string& what) {
  throw cni::Error(cni::Code::kInvalidConfig, what);
}

// Empty: it is none.
std::string network_in(const std::string& text) try {
  return cni::list_from(text).name;
} catch (const cni::Error&) {
  return {};
}

}  // namespace

void require_usable(const Options& options) {
  if (options.conf.empty()) return;
  const std::string name = name_of(options.conf), text = content_of(options.conf);
  if (!name.ends_with(".conflist")) refuse(cat(options.conf, ": a *.conflist is expected"));
  const std::string network = cni::list_from(text).name;
  for (const std::string& other : cni::names_in(options.conf_dir)) {
    const std::string path = cat(options.conf_dir, "/", other);
    if (other < name && is_network_file(other)) {
      refuse(cat(path, " comes before ", name, ", so that runtimes use it"));
    }
    if (other != name) continue;
    const std::string there = network_in(content_of(path));
    if (there != network) refuse(cat(path, " exists, with network '", there, "'"));
  }
}

bool put_config(const Options& options) {
  const std::string name = name_of(options.conf), text = content_of(options.conf);
  const std::string path = cat(options.conf_dir, "/", name);
  if (netlink::read_file(path) == text) return false;
  cni::Dir::create(options.conf_dir);
  Folder::open(options.conf_dir).replace(name, text, kReadable);
  return true;
}

bool remove_config(const Options& options) {
  const std::string name = name_of(options.conf);
  const auto there = netlink::read_file(cat(options.conf_dir, "/", name));
  if (!there || *there != content_of(options.conf)) return false;
  Folder::open(options.conf_dir).remove(name);
  return true;
}

}  // namespace installer
