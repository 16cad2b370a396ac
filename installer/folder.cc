#include "installer/folder.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "libcni/common/lock.h"

namespace installer {

namespace {

constexpr const char* kPrevious = "previous";
constexpr const char* kMade = "made";  // install made the folder
constexpr std::string_view kTemporary = ".patchbay-";

// ".bridge.patchbay-0123abcd"
std::string temporary_name(const std::string& name) {
  unsigned number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) {
    number = static_cast<unsigned>(::getpid());
  }
  std::array<char, 9> digits{};
  std::snprintf(digits.data(), digits.size(), "%08x", number);
  return cat(".", name, kTemporary, digits.data());
}

bool is_temporary(std::string_view name) {
  constexpr std::size_t kDigits = 8;
  const auto at = name.rfind(kTemporary);
  return name.starts_with('.') && at != name.npos && at > 0 &&
         name.size() == at + kTemporary.size() + kDigits;
}

// Not every system has labels.
void copy_label(const std::string& from, int to) {
  constexpr const char* kLabel = "security.selinux";
  std::array<char, 256> label{};
  const ssize_t size = ::getxattr(from.c_str(), kLabel, label.data(), label.size());
  if (size > 0) ::fsetxattr(to, kLabel, label.data(), static_cast<std::size_t>(size), 0);
}

// Whether it shares the blocks of the other file now: btrfs and XFS can (ioctl_ficlone(2)).
bool share_blocks(const netlink::Fd& from, const netlink::Fd& to) {
  constexpr unsigned kType = 0x94, kNumber = 9;  // FICLONE of linux/fs.h
  return ::ioctl(to.get(), _IOW(kType, kNumber, int), from.get()) == 0;
}

}  // namespace

void Folder::fail(const char* verb, const std::string& name) const {
  throw netlink::Error(cat(verb, " '", path_of(name), "'"), errno);
}

Folder Folder::open(const std::string& path) {
  auto dir = cni::Dir::open(path);
  if (!dir) throw netlink::Error(cat("open '", path, "'"), ENOENT);
  return Folder(*std::move(dir));
}

Folder Folder::create(const std::string& path) {
  const bool is_new = !cni::Dir::exists(path);
  Folder out(cni::Dir::create(path));
  if (is_new) out.own().publish(kMade, "");
  return out;
}

cni::Dir Folder::own() const { return dir_.make_sub(kOwn); }

std::optional<cni::Dir> Folder::previous() const {
  const auto own = dir_.sub(kOwn);
  return own ? own->sub(kPrevious) : std::nullopt;
}

netlink::Fd Folder::lock() const { return cni::take_lock(own(), std::chrono::seconds(10)); }

void Folder::remove_temporary() const {
  for (const std::string& name : dir_.names()) {
    if (is_temporary(name)) remove(name);
  }
}

std::optional<struct stat> Folder::look(const std::string& name) const {
  struct stat about {};
  if (::fstatat(dir_.fd(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0) return about;
  if (errno != ENOENT) fail("look at", name);
  return std::nullopt;
}

bool Folder::leads_outside(const std::string& name) const {
  const auto target = dir_.read_link(name);
  return target && target->find('/') != std::string::npos;
}

std::string Folder::labelled(const std::string& name) const {
  if (look(name)) return path_of(name);
  auto others = dir_.names();
  std::erase_if(others, [](const std::string& other) { return other.starts_with('.'); });
  return others.empty() ? path() : path_of(*std::ranges::min_element(others));
}

std::string Folder::write(const std::string& name, std::string_view content, unsigned mode) const {
  return write(name, mode, [content](const netlink::Fd& fd, const std::string& path) {
    netlink::write_all(fd.get(), content, path);
  });
}

std::string Folder::write(const std::string& name, unsigned mode, const Fill& fill) const {
  const std::string aside = temporary_name(name);
  const netlink::Fd fd(
      ::openat(dir_.fd(), aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRWXU));
  if (!fd) fail("create", aside);
  try {
    fill(fd, path_of(aside));
    if (::fchmod(fd.get(), mode) != 0) fail("set the mode of", aside);
    copy_label(labelled(name), fd.get());
    if (::fsync(fd.get()) != 0) fail("write to disk", aside);
  } catch (...) {
    ::unlinkat(dir_.fd(), aside.c_str(), 0);
    throw;
  }
  return aside;
}

void Folder::rename(const std::string& aside, int to, const std::string& name) const {
  if (::renameat(dir_.fd(), aside.c_str(), to, name.c_str()) == 0) return;
  const int error = errno;
  ::unlinkat(dir_.fd(), aside.c_str(), 0);
  errno = error;
  fail("replace", name);
}

void Folder::replace(const std::string& name, std::string_view content, unsigned mode) const {
  rename(write(name, content, mode), dir_.fd(), name);
  sync();
}

void Folder::put(const std::string& source, const std::string& name) const {
  const netlink::Fd from(::openat(dir_.fd(), source.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!from) fail("read", source);
  const std::string aside = write(name, kMode, [&](const netlink::Fd& to, const std::string& path) {
    if (share_blocks(from, to)) return;
    const auto content = netlink::read_regular_file(path_of(source));
    if (!content) fail("read", source);
    netlink::write_all(to.get(), *content, path);
  });
  rename(aside, dir_.fd(), name);
}

void Folder::keep(const std::string& name) const {
  const cni::Dir to = own().make_sub(kPrevious);
  if (to.has(name)) return;
  if (::linkat(dir_.fd(), name.c_str(), to.fd(), name.c_str(), 0) == 0) return;
  if (const auto target = dir_.read_link(name)) {
    to.replace_link(name, *target, cat(name, ".new"));
    return;
  }
  const auto content = netlink::read_regular_file(path_of(name));
  if (!content) fail("read", name);
  rename(write(name, *content), to.fd(), name);
}

bool Folder::has_previous(const std::string& name) const {
  const auto kept = previous();
  return kept && kept->has(name);
}

// The names of k3s are links to one executable in a folder that each upgrade makes anew; the link
// `cni`, which nobody replaces, says where it is now.
std::optional<std::string> Folder::moved(const cni::Dir& kept, const std::string& name) const {
  constexpr const char* kExecutable = "/bin/cni";
  const auto before = kept.read_link(name);
  const auto now = dir_.read_link("cni");
  const bool is_of_k3s =
      before && now && before->ends_with(kExecutable) && now->ends_with(kExecutable);
  return is_of_k3s && *before != *now ? now : std::nullopt;
}

void Folder::restore(const std::string& name) const {
  const auto kept = previous();
  if (const auto target = kept ? moved(*kept, name) : std::nullopt) {
    dir_.replace_link(name, *target, temporary_name(name));
    kept->remove(name);
    return;
  }
  if (!kept || ::renameat(kept->fd(), name.c_str(), dir_.fd(), name.c_str()) != 0) {
    fail("restore", name);
  }
}

void Folder::forget_previous(const std::string& name) const {
  if (const auto kept = previous()) kept->remove(name);
}

void Folder::remove(const std::string& name) const { dir_.remove(name); }

void Folder::sync() const {
  if (::fsync(dir_.fd()) != 0) fail("write to disk", ".");
}

void Folder::tidy() const {
  const auto own = dir_.sub(kOwn);
  if (!own) return;
  own->remove_dir(kPrevious);
  if (own->has(kPrevious)) return;
  const bool is_made = own->remove(kMade);
  own->remove("lock");
  if (dir_.remove_dir(kOwn) && is_made) ::rmdir(path().c_str());  // kept where others are in it
}

}  // namespace installer
