#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cstdio>

#include "installer/config_file.h"
#include "installer/identity.h"
#include "installer/new_folder.h"
#include "installer/options.h"
#include "libcni/common/error.h"
#include "libcni/common/printable.h"
#include "libcni/plugin/invoke.h"

namespace installer {

namespace {

using Kind = Identity::Kind;

constexpr const char* kSuite = "patchbay";

// At once: whoever reads a pipe, as the log of a container, sees it while this process goes on.
void say(const std::string& line) {
  std::printf("%s\n", cni::printable_text(line).c_str());
  std::fflush(stdout);
}

bool is_noexec(const std::string& path) {
  struct statvfs about {};
  return ::statvfs(path.c_str(), &about) == 0 && (about.f_flag & ST_NOEXEC) != 0;
}

// Whether the plugin answers VERSION there: a file system may refuse to execute it, or the
// processor. \throws cni::Error.
void require_answer(const Folder& folder, const std::string& file, const std::string& plugin) {
  if (is_noexec(folder.path())) {
    throw cni::Error(cni::Code::kInvalidConfig,
                     cat("'", folder.path(), "' is mounted noexec: no plugin can run there"));
  }
  cni::Executable program{.file = folder.path_of(file), .env = {{"CNI_COMMAND", "VERSION"}}};
  if (file != plugin) program.arguments = {plugin};
  const cni::Outcome outcome = cni::execute(program, "", std::chrono::seconds(10));
  if (outcome.ok() && outcome.out.find("supportedVersions") != std::string::npos) return;
  throw cni::Error(cni::Code::kInvalidConfig,
                   cat("'", program.file, "' does not answer VERSION: ", outcome.out, outcome.err));
}

void require_no_newer(const Folder& folder, const Identities& before, const Self& self) {
  for (const auto& [name, one] : before) {
    if (one.kind != Kind::kPatchbay || !is_older(self.version, one.version)) continue;
    throw cni::Error(cni::Code::kInvalidConfig,
                     cat("'", folder.path_of(name), "' is patchbay ", one.version,
                         ", newer than this ", self.version, ": --downgrade replaces it"));
  }
}

void require_no_directory(const Folder& folder, const Identities& before) {
  for (const auto& [name, one] : before) {
    const auto about = folder.look(name);
    if (!about || !S_ISDIR(about->st_mode)) continue;
    throw cni::Error(cni::Code::kInvalidConfig,
                     cat("'", folder.path_of(name), "' is a directory: move it away"));
  }
}

// k3s verifies the folder into which it unpacks (check-config) and makes another at an upgrade.
void require_not_unpacked_by_k3s(const Folder& folder) {
  if (!folder.look(".links") || !folder.look(".sha256sums")) return;
  throw cni::Error(cni::Code::kInvalidConfig,
                   cat("'", folder.path(),
                       "' is what k3s unpacked, verifies and replaces: its folder "
                       "of plugins is data/cni (from 1.28.15, 1.29.10, 1.30.6 and 1.31.2 on), in "
                       "which it looks first after a restart"));
}

// A file with this executable's content, to make names of.
class Source {
 public:
  Source(const Folder& folder, const Identities& before, const Self& self) : folder_(folder) {
    for (const auto& [name, one] : before) {
      if (one.kind == Kind::kSame) file_ = name;
    }
    is_temporary_ = file_.empty();
    if (is_temporary_) file_ = folder.write(kSuite, self.content);
  }
  ~Source() try {
    if (is_temporary_) folder_.remove(file_);
  } catch (const std::exception&) {  // the next install removes it
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  const std::string& file() const { return file_; }
  bool is_temporary() const { return is_temporary_; }

 private:
  const Folder& folder_;
  std::string file_;
  bool is_temporary_ = false;
};

// Whether calls of the name run another plugin, as where somebody wrote through one of several hard
// links: nothing that uninstall should bring back.
bool is_another_plugin(const std::string& name, const Identity& one) {
  return one.kind == Kind::kOther && !one.plugin.empty() && one.plugin != name;
}

// Puts the file under the name; returns what it did.
std::string put_name(const Folder& folder, const std::string& source, const std::string& name,
                     const Identity& before) {
  const bool is_kept = before.kind == Kind::kOther && !is_another_plugin(name, before);
  if (is_kept) folder.keep(name);
  folder.put(source, name);
  if (before.kind == Kind::kMissing) return cat("installed ", name);
  return cat("replaced  ", name, " (", before.what, is_kept ? ", which uninstall restores)" : ")");
}

// Returns how many names changed.
std::size_t put_names(const Folder& folder, const Identities& before, const Self& self) {
  std::size_t changed = 0;
  const Source source(folder, before, self);
  for (const auto& [name, one] : before) {
    if (source.is_temporary() && name != kSuite) require_answer(folder, source.file(), name);
  }
  for (const auto& [name, one] : before) {
    if (one.kind == Kind::kSame) continue;
    say(put_name(folder, source.file(), name, one));
    ++changed;
  }
  return changed;
}

}  // namespace

Status install(const Options& options) {
  const Self self = Self::read();
  require_usable(options);
  const auto made = text_of_new(options.dir);
  const Folder folder = Folder::create(options.dir);
  if (made) say(*made);
  require_not_unpacked_by_k3s(folder);
  const netlink::Fd lock = folder.lock();
  folder.remove_temporary();
  const Identities before = identify(folder, options.names, self);
  if (!options.may_downgrade) require_no_newer(folder, before, self);
  require_no_directory(folder, before);
  const std::size_t changed = put_names(folder, before, self);
  folder.sync();
  for (const std::string& name : options.names) {
    if (name != kSuite) require_answer(folder, name, name);
  }
  say(cat("patchbay ", self.version, " in ", options.dir, ": ", changed, " of ",
          options.names.size(), " names changed"));
  if (!options.conf.empty() && put_config(options)) {
    say(cat("installed ", options.conf, " in ", options.conf_dir));
  }
  return Status::kDone;
}

Status uninstall(const Options& options) {
  const Self self = Self::read();
  if (!options.conf.empty() && remove_config(options)) {
    say(cat("removed  ", options.conf, " from ", options.conf_dir));
  }
  const Folder folder = Folder::open(options.dir);
  const netlink::Fd lock = folder.lock();
  folder.remove_temporary();
  for (const auto& [name, one] : identify(folder, options.names, self)) {
    if (one.kind == Kind::kOther) {
      say(cat("stays    ", name, ": it is ", one.what));
      folder.forget_previous(name);
    } else if (folder.has_previous(name)) {
      folder.restore(name);
      say(cat("restored ", name));
    } else if (one.kind != Kind::kMissing) {
      folder.remove(name);
      say(cat("removed  ", name));
    }
  }
  folder.sync();
  folder.tidy();
  return Status::kDone;
}

Status verify(const Options& options) {
  const Self self = Self::read();
  const Folder folder = Folder::open(options.dir);
  std::size_t wrong = 0;
  for (const auto& [name, one] : identify(folder, options.names, self)) {
    if (one.kind == Kind::kSame) continue;
    ++wrong;
    say(cat(
        folder.path_of(name), ": ",
        one.kind == Kind::kMissing    ? "it is missing"
        : one.kind == Kind::kPatchbay ? cat("it is another build or has another mode: ", one.what)
                                      : cat("it is ", one.what),
        is_another_plugin(name, one) ? cat(", so that calls of ", name, " run ", one.plugin) : ""));
  }
  say(cat("patchbay ", self.version, " in ", options.dir, ": ", options.names.size() - wrong,
          " of ", options.names.size(), " names are this executable",
          wrong == 0 ? "" : "; `patchbay install` puts them back"));
  return wrong == 0 ? Status::kDone : Status::kFailed;
}

}  // namespace installer
