#include "installer/identity.h"

#include <charconv>

#include "libcni/plugin/plugin.h"
#include "libcni/plugin/version_line.h"

namespace installer {

namespace {

void ask(const std::string& file, Identity& into) try {
  const cni::VersionLine about = cni::version_line_of(file);
  into.what = about.line.empty() ? "a program that does not name itself" : about.line;
  into.plugin = about.plugin;
  into.version = about.patchbay;
  if (!into.version.empty()) into.kind = Identity::Kind::kPatchbay;
} catch (const std::exception& e) {
  into.what = e.what();
}

bool is_same(const std::string& file, const struct stat& about, const Self& self) {
  constexpr mode_t kPermissions = 07777;
  return S_ISREG(about.st_mode) && (about.st_mode & kPermissions) == Folder::kMode &&
         static_cast<std::size_t>(about.st_size) == self.content.size() &&
         netlink::read_regular_file(file) == self.content;
}

// Bytes of a copy that was not finished, as on a full disk.
bool is_torn(const std::string& file, const struct stat& about, const Self& self) {
  return S_ISREG(about.st_mode) && static_cast<std::size_t>(about.st_size) < self.content.size() &&
         self.content.starts_with(netlink::read_regular_file(file).value_or("\n"));
}

unsigned number_at(std::string_view& text) {
  unsigned out = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), out).ptr;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.starts_with('.')) text.remove_prefix(1);
  return out;
}

}  // namespace

Self Self::read() {
  const auto content = netlink::read_file("/proc/self/exe");
  if (!content) throw netlink::Error("read '/proc/self/exe'", ENOENT);
  return {*content, std::string(cni::build_version())};
}

Identities identify(const Folder& folder, const std::vector<std::string>& names, const Self& self) {
  Identities out;
  std::optional<struct stat> same;  // of a name that is this executable
  for (const std::string& name : names) {
    Identity& one = out[name];
    const auto about = folder.look(name);
    if (!about) continue;
    one.kind = Identity::Kind::kOther;
    const bool is_known = same && same->st_dev == about->st_dev && same->st_ino == about->st_ino;
    if (is_known || is_same(folder.path_of(name), *about, self)) {
      one = {.kind = Identity::Kind::kSame, .version = self.version};
      same = about;
    } else if (is_torn(folder.path_of(name), *about, self)) {
      one = {.kind = Identity::Kind::kPatchbay, .version = self.version, .what = "cut off"};
    } else if (S_ISDIR(about->st_mode)) {
      one.what = "a directory";
    } else {
      ask(folder.path_of(name), one);
      // The maker of the link has it back, whatever it leads to.
      if (folder.leads_outside(name)) one.kind = Identity::Kind::kOther;
    }
  }
  return out;
}

bool is_older(const std::string& version, const std::string& than) {
  std::string_view one = version, other = than;
  while (!one.empty() || !other.empty()) {
    const std::size_t before = one.size() + other.size();
    const unsigned mine = number_at(one), theirs = number_at(other);
    if (mine != theirs) return mine < theirs;
    if (one.size() + other.size() == before) return false;  // "-dev" and the like
  }
  return false;
}

}  // namespace installer
