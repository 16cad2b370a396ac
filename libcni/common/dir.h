#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/types/fd.h"

namespace cni {

/// A file's content at the time of a read.
struct File {
  std::string content;
  std::time_t modified = 0;  ///< seconds since the epoch
  std::string stamp = {};    ///< another one after every replace() and publish()
};

/// An open directory. Names are looked up in it alone and never through a symbolic link, so that
/// nothing outside of it is read or written, whatever someone put there.
/// Nothing but replace_synced() is fsynced: after a power loss no container is alive that could own
/// an address, and what a lost write leaves behind (nothing, or an empty file) is reclaimed.
/// Syncing would cost each ADD some milliseconds under the lock. Every member throws netlink::Error
/// for what is not an expected answer.
class Dir {
 public:
  /// Empty: path does not exist. Symbolic links in path are followed.
  static std::optional<Dir> open(const std::string& path);
  /// Makes path and its parents with the mode, as far as they are not there.
  static Dir create(const std::string& path, unsigned mode = 0755);
  /// Whether something is at path, by one system call. True where that cannot be told.
  static bool exists(const std::string& path) noexcept;
  /// A directory in this one; nothing where it does not exist.
  std::optional<Dir> sub(const std::string& name) const;
  /// The same for a directory that an operator may have moved to another disk: a symbolic link is
  /// followed if it is root's. Another's may be planted, and is refused.
  std::optional<Dir> sub_or_link(const std::string& name) const;
  /// sub(), created if it does not exist.
  Dir make_sub(const std::string& name, unsigned mode = 0755) const;

  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }
  /// The names of its entries, in no order, without "." and "..".
  std::vector<std::string> names() const;
  bool has(const std::string& name) const;
  /// Whether the name is that of a regular file, which read() reads.
  bool has_file(const std::string& name) const;
  /// Whether its path leads to it no more: it was removed or moved since it was opened.
  bool is_removed() const;
  /// When a name in it was made or removed last, "SECONDS.NANOSECONDS".
  std::string changed() const;
  /// The same of the directory of that name; nothing where there is none.
  std::optional<std::string> changed(const std::string& name) const;
  /// Sets changed() to now, to the nanosecond. False: refused, as on a read-only file system.
  bool touch() const noexcept;
  /// Empty: the name does not exist, or is no regular file.
  std::optional<File> read(const std::string& name) const;

  /// Makes a file of mode 0600 that appears complete or not at all. False: the name is taken. On
  /// file systems without O_TMPFILE it is written to aside first, which needs a lock.
  bool publish(const std::string& name, std::string_view content,
               const std::string& aside = kAside) const;
  /// publish() for file systems without O_TMPFILE.
  bool publish_aside(const std::string& name, std::string_view content,
                     const std::string& aside = kAside) const;
  /// Makes or replaces a file of mode 0600, at once, by way of the file aside.
  void replace(const std::string& name, std::string_view content, const std::string& aside) const;
  /// The same for what must survive a power loss: the file and the directory are fsynced.
  void replace_synced(const std::string& name, std::string_view content,
                      const std::string& aside) const;
  /// fsync(2) of the directory: what was made, renamed or removed in it.
  void sync() const;
  /// Writes over a file that is no longer than content and has no other name, by one write. False:
  /// it is not like that, or is not there; nothing was changed. For what may be torn by a power
  /// loss: ext4 has each file that is renamed over another written to disk first, 0.3 ms of an ADD
  /// (auto_da_alloc in ext4(5)), this one not.
  bool overwrite(const std::string& name, std::string_view content) const;
  /// Adds to the end of a file, by one write: a process that is killed, a full disk or a power loss
  /// may leave a part of it.
  void append(const std::string& name, std::string_view content) const;
  /// False: it was not there.
  bool remove(const std::string& name) const;

  /// False: the name is taken.
  bool make_link(const std::string& name, const std::string& target) const;
  /// The target of a symbolic link; nothing for anything else.
  std::optional<std::string> read_link(const std::string& name) const;
  /// Makes or replaces a symbolic link, at once, by way of the name aside.
  void replace_link(const std::string& name, const std::string& target,
                    const std::string& aside) const;
  /// Gives a name in it another, which nothing has or an empty directory.
  void rename(const std::string& name, const std::string& to) const;
  /// Removes a directory if it is empty; false where it is not there or not empty.
  bool remove_dir(const std::string& name) const;

  static constexpr const char* kAside = ".new";

 private:
  Dir(netlink::Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  [[noreturn]] void fail(const char* verb, const std::string& name, int error) const;
  void write_new(const std::string& aside, std::string_view content, bool synced = false) const;
  void rename_over(const std::string& name, const std::string& aside) const;

  netlink::Fd fd_;
  std::string path_;
};

/// The names in a directory, sorted; none if it cannot be read.
std::vector<std::string> names_in(const std::string& path);

}  // namespace cni
