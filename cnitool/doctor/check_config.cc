#include <algorithm>
#include <map>

#include "cnitool/doctor/checks.h"
#include "cnitool/validate/validate.h"

namespace tool::doctor {

Findings check_networks(const Node& node) {
  Findings out;
  for (const cni::BrokenFile& one : node.networks.broken) {
    out.push_back({Level::kError, one.error.what(), "runtimes ignore the file, or fail",
                   cat("cnitool validate ", one.file),
                   one.network.empty() ? Names{} : Names{one.network}});
  }
  if (node.networks.lists.empty() && out.empty()) {
    const std::string& dir = node.networks.dir;
    const auto unread = unread_files(dir);
    const auto is_file = [](const std::string& name) { return !name.ends_with('/'); };
    const auto file = std::ranges::find_if(unread, is_file);
    out.push_back({Level::kError,
                   unread.empty() ? cat("no network in ", dir)
                                  : cat("no network in ", dir,
                                        ": runtimes read files *.conflist, *.conf "
                                        "and *.json, and not ",
                                        some_of(unread)),
                   "runtimes report 'network plugin is not initialized' and start no pod",
                   file == unread.end() ? cat("cp NETWORK.conflist ", dir, "/")
                                        : cat("mv ", dir, "/", *file, " ", dir, "/",
                                              file->substr(0, file->find('.')), ".conflist")});
  }
  return out;
}

// Lists come first and then single configs, each by file name: the first of a name counts.
// containerd sorts all of them by name and takes one.
Findings check_names(const Node& node) {
  Findings out;
  std::map<std::string, std::string> first;
  std::vector<std::string> files;
  for (const cni::NetworkList& list : node.networks.lists) {
    files.push_back(list.file);
    const auto [it, is_new] = first.emplace(list.name, list.file);
    if (is_new) continue;
    out.push_back({Level::kWarning,
                   cat("network '", list.name, "' is in ", it->second, " and again in ", list.file),
                   "it depends on the runtime which of them is used",
                   cat("diff ", it->second, " ", list.file,
                       "; then give one of them another \"name\", or remove it"),
                   {list.name}});
  }
  if (files.size() > 1) {
    const auto by_name = std::ranges::min_element(files);
    out.push_back({Level::kNote,
                   cat("of ", files.size(), " networks containerd uses only that of ", *by_name),
                   "containerd uses the first file in alphabetical order"});
  }
  return out;
}

}  // namespace tool::doctor
