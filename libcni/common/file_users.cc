#include "libcni/common/file_users.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "libcni/common/printable.h"
#include "netlink/types/error.h"
#include "netlink/types/fd.h"

namespace cni {

namespace {

using netlink::cat;

std::string content_of(const std::string& path) try {
  return netlink::read_file(path).value_or("");
} catch (const netlink::Error&) {
  return {};  // the process has ended
}

// Calls fn with the names in the folder that are numbers, until it returns true.
bool any_number_in(const std::string& folder, const std::function<bool(const std::string&)>& fn) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(folder.c_str()), ::closedir);
  if (!stream) return false;
  while (const dirent* const entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name.find_first_not_of("0123456789") == std::string::npos && fn(name)) return true;
  }
  return false;
}

// The processes with a descriptor for which has is true.
std::vector<FileUser> users(
    const std::function<bool(const std::string& process, const std::string& number)>& has) {
  std::vector<FileUser> out;
  any_number_in("/proc", [&](const std::string& pid) {
    const std::string process = cat("/proc/", pid);
    const bool has_it = any_number_in(
        cat(process, "/fd"), [&](const std::string& number) { return has(process, number); });
    if (!has_it) return false;
    std::string name = content_of(cat(process, "/comm"));
    while (!name.empty() && name.back() == '\n') name.pop_back();
    out.push_back({pid, name, content_of(cat(process, "/cmdline"))});
    return false;
  });
  return out;
}

}  // namespace

bool FileUser::has_argument(const std::string& argument) const {
  return cat('\0', command_line).find(cat('\0', argument, '\0')) != std::string::npos;
}

std::string FileUser::str() const { return cat("process ", pid, " (", printable_text(name), ")"); }

std::vector<FileUser> users_of_socket(std::uint64_t inode) {
  const std::string link = cat("socket:[", inode, "]");
  return users([&](const std::string& process, const std::string& number) {
    char target[64];
    const ssize_t n = ::readlink(cat(process, "/fd/", number).c_str(), target, sizeof target);
    return n > 0 && std::string_view(target, static_cast<std::size_t>(n)) == link;
  });
}

// proc_pid_fdinfo(5): "lock:\t1: FLOCK  ADVISORY  WRITE 812 fe:00:1313 0 EOF" are the locks of that
// open file. stat(2) decides, for that file alone: one on a dead NFS server would not return.
std::vector<FileUser> lock_holders(int fd, std::optional<off_t> byte) {
  struct stat wanted {};
  if (::fstat(fd, &wanted) != 0) return {};
  const std::string inode = cat(":", wanted.st_ino, " ", byte ? cat(*byte, " ", *byte, "\n") : "");
  return users([&](const std::string& process, const std::string& number) {
    const std::string info = content_of(cat(process, "/fdinfo/", number));
    const auto lock = info.find("lock:");
    if (lock == std::string::npos || info.find(inode, lock) == std::string::npos) return false;
    struct stat found {};
    return ::stat(cat(process, "/fd/", number).c_str(), &found) == 0 &&
           found.st_dev == wanted.st_dev && found.st_ino == wanted.st_ino;
  });
}

}  // namespace cni
