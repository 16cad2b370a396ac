#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "cnitool/doctor/look.h"
#include "cnitool/node_runtimes.h"
#include "libcni/common/dir.h"
#include "libcni/plugin/version_line.h"

namespace tool::doctor {

namespace {

// Empty: it does not name itself as a plugin.
std::string plugin_in(const std::string& file) try {
  return cni::version_line_of(file).plugin;
} catch (const std::exception&) {
  return {};
}

// The names of each file of several names.
std::vector<std::vector<std::string>> shared_files(const std::string& dir) {
  std::map<std::pair<dev_t, ino_t>, std::vector<std::string>> out;
  for (const std::string& name : cni::names_in(dir)) {
    struct stat about {};
    const bool is_file = ::stat(cat(dir, "/", name).c_str(), &about) == 0 &&
                         S_ISREG(about.st_mode) && (about.st_mode & S_IXUSR) != 0;
    if (is_file && !name.starts_with('.')) out[{about.st_dev, about.st_ino}].push_back(name);
  }
  std::vector<std::vector<std::string>> shared;
  for (auto& [file, names] : out) {
    if (names.size() > 1) shared.push_back(std::move(names));
  }
  return shared;
}

}  // namespace

std::vector<MixedUp> mixed_up_in(const std::vector<std::string>& dirs) {
  std::vector<MixedUp> out;
  for (const std::string& dir : dirs) {
    for (const auto& names : shared_files(dir)) {
      const bool is_suite = std::ranges::count(names, "patchbay") != 0;
      if (is_suite && !mentions(cat(dir, "/patchbay"), kPatchbayMark)) {
        out.push_back({dir, plugin_in(cat(dir, "/patchbay")), names});
        std::erase(out.back().names, out.back().plugin);
        continue;
      }
      // A multi-call binary returns each name; a single plugin returns its own for both.
      for (const std::string& name : {names[0], names[1]}) {
        const std::string plugin = plugin_in(cat(dir, "/", name));
        if (plugin.empty() || plugin == name) continue;
        out.push_back({dir, plugin, names});
        std::erase(out.back().names, plugin);
        break;
      }
    }
  }
  return out;
}

}  // namespace tool::doctor
