#include "cnitool/doctor/places.h"

#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <set>

#include "cnitool/delegate.h"
#include "cnitool/doctor/checks.h"
#include "cnitool/json_at.h"
#include "cnitool/pool.h"
#include "plugins/names/blocks.h"
#include "plugins/names/state.h"

namespace tool::doctor {

namespace {

namespace fs = std::filesystem;

Place place_of(const std::string& path) {
  Place out{.path = path};
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return out;
  constexpr unsigned kPermissions = 07777;
  out.is_there = true;
  out.mode = about.st_mode & kPermissions;
  out.uid = about.st_uid;
  return out;
}

std::string nearest(const std::string& path) {
  fs::path at = path;
  std::error_code ignored;
  while (!fs::exists(at, ignored) && at.has_relative_path()) at = at.parent_path();
  return at.string();
}

std::optional<FileSystem> file_system_of(const std::string& path) {
  constexpr long kTmpfs = 0x01021994, kRamfs = 0x858458f6;  // linux/magic.h
  struct statfs about {};
  if (::statfs(nearest(path).c_str(), &about) != 0) return std::nullopt;
  FileSystem out{.path = path};
  out.in_memory = about.f_type == kTmpfs || about.f_type == kRamfs;
  out.read_only = (about.f_flags & ST_RDONLY) != 0;
  const auto part = [](auto free, auto all) {
    return all == 0 ? 1.0 : static_cast<double>(free) / static_cast<double>(all);
  };
  out.free_bytes = part(about.f_bavail, about.f_blocks);
  out.free_files = part(about.f_ffree, about.f_files);
  return out;
}

// The folders of the cache and the plugins, those of the networks first: that name is printed for a
// file system.
std::vector<std::string> state_dirs(const Node& node) {
  std::vector<std::string> out{node.cache_dir};
  for (const Pool& pool : node.pools) out.push_back(pool.dir);
  for (const cni::NetworkList& list : node.networks.lists) {
    for (const cni::PluginConf& plugin : list.plugins) {
      const std::string dir = text_at(effective(plugin).conf, "dataDir");
      if (dir.starts_with('/')) out.push_back(dir);
    }
  }
  out.emplace_back(names::kRunDir);
  for (const auto& [dir, type] : names::kStateDirs) out.emplace_back(dir);
  if (std::error_code ignored; fs::exists(names::kBlocksDir, ignored)) {
    out.emplace_back(names::kBlocksDir);
  }
  return out;
}

void look_at_file_systems(Node& node) {
  std::set<dev_t> seen;
  for (const std::string& path : state_dirs(node)) {
    struct stat about {};
    if (::stat(nearest(path).c_str(), &about) != 0 || !seen.insert(about.st_dev).second) continue;
    if (const auto found = file_system_of(path)) node.file_systems.push_back(*found);
  }
}

void look_for_folders(Node& node) {
  std::set<std::string> paths{node.cache_dir + "/results"};
  for (const std::string& path : state_dirs(node)) paths.insert(path);
  // Without these directories the pools are not known.
  for (const cni::NetworkList& list : node.networks.lists)
    paths.insert(cat(names::kHostLocalDataDir, "/", list.name));
  for (const std::string& path : paths) {
    struct stat about {};
    if (::stat(path.c_str(), &about) == 0 && !S_ISDIR(about.st_mode))
      node.no_folders.push_back(path);
    const std::string lock = path + "/lock";
    if (::lstat(lock.c_str(), &about) == 0 && !S_ISREG(about.st_mode))
      node.no_locks.push_back(lock);
  }
}

std::string percent(double part) { return cat(std::lround(part * 100), " %"); }

constexpr unsigned kOthersWrite = 0022;

std::string octal(unsigned mode) {
  std::string out;
  for (; mode != 0; mode /= 8) out.insert(out.begin(), static_cast<char>('0' + mode % 8));
  return "0" + out;
}

}  // namespace

void look_at_places(Node& node, const std::string& conf_dir) {
  std::set<std::string> paths{conf_dir, node.cache_dir, node.cache_dir + "/results"};
  for (const cni::NetworkList& list : node.networks.lists) paths.insert(list.file);
  for (const auto& broken : node.networks.broken) paths.insert(broken.file);
  for (const PluginFile& program : node.programs) {
    if (!program.file.empty()) paths.insert(program.file);
  }
  for (const std::string& dir : node.plugin_path) paths.insert(dir);
  for (const Pool& pool : node.pools) paths.insert(pool.dir);
  for (const std::string& path : paths) node.places.push_back(place_of(path));
  look_at_file_systems(node);
  look_for_folders(node);
}

bool is_full(const FileSystem& one) {
  constexpr double kFull = 0.001;
  return std::min(one.free_bytes, one.free_files) < kFull;
}

bool is_of_disk(const Node& node, std::string_view error) {
  const auto has = [&](int number, auto&& is_so) {
    return error.find(netlink::errno_text(number)) != error.npos &&
           std::ranges::any_of(node.file_systems, is_so);
  };
  const auto is_named = [&](const std::string& path) { return error.find(path) != error.npos; };
  if (std::ranges::any_of(node.no_locks, is_named)) return true;
  if (std::ranges::any_of(node.no_folders, is_named) &&
      error.find(netlink::errno_text(ENOTDIR)) != error.npos) {
    return true;
  }
  return has(EROFS, [](const FileSystem& one) { return one.read_only; }) || has(ENOSPC, is_full);
}

Findings check_disks(const Node& node) {
  constexpr double kNearlyFull = 0.05;
  Findings out;
  for (const std::string& path : node.no_folders) {
    out.push_back({Level::kError, cat("'", path, "' is not a directory"),
                   "ADD and DEL fail, because plugins and runtimes keep their state there",
                   cat("mv ", path, " ", path, ".old")});
  }
  for (const std::string& path : node.no_locks) {
    out.push_back({Level::kError, cat("'", path, "' is no regular file"),
                   "ADD and DEL fail, because they cannot lock it",
                   cat("mv ", path, " ", path, ".old")});
  }
  for (const FileSystem& one : node.file_systems) {
    if (one.read_only) {
      out.push_back({Level::kError, cat("the file system of ", one.path, " is read-only"),
                     "ADD fails, because plugins and runtimes keep their state there",
                     cat("mount -o remount,rw $(findmnt -n -o TARGET -T ", one.path, ")")});
    } else if (const double least = std::min(one.free_bytes, one.free_files); least < kNearlyFull) {
      out.push_back({is_full(one) ? Level::kError : Level::kWarning,
                     cat("the file system of ", one.path, " has ", percent(least), " of its ",
                         one.free_bytes < one.free_files ? "space" : "files", " left"),
                     is_full(one) ? "ADD fails, because plugins and runtimes keep their state there"
                                  : "ADD fails when it is full",
                     cat("du -x -d 2 $(findmnt -n -o TARGET -T ", one.path, ") | sort -n")});
    }
    if (one.in_memory && !one.path.starts_with("/run/")) {
      out.push_back({Level::kNote, cat(one.path, " is in memory"),
                     "it is empty after a reboot, after which no pod exists either"});
    }
  }
  return out;
}

Findings check_permissions(const Node& node) {
  Findings out;
  for (const Place& place : node.places) {
    if (!place.is_there) continue;
    if ((place.mode & kOthersWrite) != 0) {
      out.push_back(
          {Level::kError,
           cat("'", place.path, "' is writable by group or others (mode ", octal(place.mode), ")"),
           "a user with write access can run programs as root", cat("chmod go-w ", place.path)});
    }
    if (place.uid != 0) {
      out.push_back({Level::kWarning,
                     cat("'", place.path, "' belongs to user ", place.uid, ", not to root"),
                     "that user can run programs as root", cat("chown root ", place.path)});
    }
  }
  return out;
}

}  // namespace tool::doctor
