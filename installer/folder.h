#pragma once

#include <sys/stat.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "libcni/common/dir.h"
#include "netlink/types/error.h"

namespace installer {

using netlink::cat;

/// The folder of plugins, while names in it change. Whatever happens, a name is the old file or the
/// new one: a file is written under a temporary name of the same folder and renamed over it, so
/// that execve(2) never meets half of one, nor one that is open for writing (ETXTBSY).
///
///     DIR/NAME                       what a runtime executes
///     DIR/.NAME.patchbay-xxxxxxxx    temporary
///     DIR/.patchbay/previous/NAME    what NAME was before the first install
///     DIR/.patchbay/lock             held while names change
///
/// Members throw netlink::Error with the path.
class Folder {
 public:
  static constexpr unsigned kMode = 0755;
  static constexpr const char* kOwn = ".patchbay";  ///< in the folder, while it is installed

  static Folder open(const std::string& path);
  /// Makes it where it does not exist.
  static Folder create(const std::string& path);

  const std::string& path() const { return dir_.path(); }
  std::string path_of(const std::string& name) const { return cat(path(), "/", name); }
  /// For calls that change something. \throws cni::Error(kTryAgainLater) while another has it.
  netlink::Fd lock() const;
  /// Temporary files that a killed call left behind; needs the lock.
  void remove_temporary() const;

  /// Nothing where the name does not exist; of a symbolic link, its own.
  std::optional<struct stat> look(const std::string& name) const;
  /// Whether it is a symbolic link out of this folder, which no build makes.
  bool leads_outside(const std::string& name) const;
  /// Makes a temporary file with the content on disk, and the SELinux label that the file of that
  /// name has, or its neighbours, or the folder; its name.
  std::string write(const std::string& name, std::string_view content, unsigned mode = kMode) const;
  /// Makes or replaces a file, at once.
  void replace(const std::string& name, std::string_view content, unsigned mode) const;
  /// Makes `name` a copy of the file `source`, at once: of links cp(1) over one name would write
  /// into all. Where the file system shares blocks (btrfs, XFS), it takes no space.
  void put(const std::string& source, const std::string& name) const;
  /// Keeps the file of that name as the previous one, unless one is kept.
  void keep(const std::string& name) const;
  bool has_previous(const std::string& name) const;
  /// Makes the previous file the current one, at once. A link of k3s leads to its executable of
  /// now.
  void restore(const std::string& name) const;
  void forget_previous(const std::string& name) const;
  void remove(const std::string& name) const;
  /// Writes the names to disk.
  void sync() const;
  /// Removes .patchbay where nothing is kept, and a folder that install made, where it is empty.
  void tidy() const;

 private:
  using Fill = std::function<void(const netlink::Fd& fd, const std::string& path)>;
  std::string write(const std::string& name, unsigned mode, const Fill& fill) const;
  std::string labelled(const std::string& name) const;  ///< the path whose label it gets
  std::optional<std::string> moved(const cni::Dir& kept, const std::string& name) const;
  explicit Folder(cni::Dir dir) : dir_(std::move(dir)) {}
  cni::Dir own() const;
  std::optional<cni::Dir> previous() const;
  void rename(const std::string& aside, int to, const std::string& name) const;
  [[noreturn]] void fail(const char* verb, const std::string& name) const;

  cni::Dir dir_;
};

}  // namespace installer
