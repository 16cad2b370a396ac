#include <sys/stat.h>

#include <map>

#include "cnitool/doctor/look.h"
#include "libcni/common/dir.h"
#include "libcni/plugin/invoke.h"

namespace tool::doctor {

namespace {

// The name that a plugin gives itself where CNI_COMMAND is not set: "CNI bridge plugin v1.9.1".
// Empty: it is no plugin that says so.
std::string name_in(std::string_view said) {
  constexpr std::string_view kBefore = "CNI ", kAfter = " plugin ";
  const auto after = said.substr(0, said.find('\n')).find(kAfter);
  if (!said.starts_with(kBefore) || after == said.npos) return {};
  return std::string(said.substr(kBefore.size(), after - kBefore.size()));
}

std::string ask(const std::string& file) try {
  const cni::Executable program{.file = file, .arguments = {"--version"}, .own_group = true};
  const cni::Outcome outcome = cni::execute(program, "", std::chrono::seconds(2));
  return name_in(cat(outcome.out, outcome.err));
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
      // One that goes by its name says that of each; another one the same of all, and so of one of
      // two that is not its own.
      for (const std::string& name : {names[0], names[1]}) {
        const std::string plugin = ask(cat(dir, "/", name));
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
