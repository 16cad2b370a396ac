#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/delegate.h"
#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/facts.h"
#include "cnitool/output.h"
#include "libcni/common/version.h"
#include "libcni/plugin/plugin.h"

namespace tool::doctor {

namespace {

// The networks that use a plugin.
Names users_of(const Node& node, const std::string& type) {
  Names out;
  for (const cni::NetworkList& list : node.networks.lists) {
    if (std::any_of(list.plugins.begin(), list.plugins.end(), [&](const auto& plugin) {
          const cni::PluginConf made = effective(plugin);
          return plugin.type == type || made.type == type || ipam_type_of(made) == type;
        })) {
      out.push_back(list.name);
    }
  }
  return out;
}

// A type that is one letter off is the config's mistake.
std::string missing_remedy(const Node& node, const PluginFile& program) {
  for (const cni::NetworkList& list : node.networks.lists) {
    for (const auto& plugin : list.plugins) {
      if (program.similar.empty()) continue;
      if (plugin.type == program.type) {
        return cat("in ", list.file, " set \"type\": \"", program.similar, "\" in the plugin \"",
                   program.type, "\"");
      }
      if (ipam_type_of(plugin) != program.type) continue;
      return cat("in ", list.file, " set \"type\": \"", program.similar, "\" in \"ipam\"");
    }
  }
  return cat("install -m 755 ", program.type, " ",
             node.plugin_path.empty() ? "/opt/cni/bin" : node.plugin_path.front(), "/");
}

Finding noexec_of(const PluginFile& one, std::string why, Names users) {
  return {Level::kError, cat("plugin '", one.file, "' is on a file system that is mounted noexec"),
          std::move(why), cat("mount -o remount,exec $(findmnt -n -o TARGET -T ", one.file, ")"),
          std::move(users)};
}

// A file that the kernel does not run is cut off or of another architecture: to run it shows
// nothing, and a shell takes an empty one for a script.
Finding failure_of(const PluginFile& one, std::string why, Names users) {
  const bool was_run = one.failure.find(": run '") == std::string::npos;
  return {Level::kError, cat("plugin '", one.file, "' fails at VERSION: ", one.failure),
          std::move(why),
          was_run ? cat("CNI_COMMAND=VERSION ", one.file)
                  : cat("install -m 755 ", one.type, " ", one.file),
          std::move(users)};
}

bool speaks(const PluginFile& program, const std::string& version) {
  const std::string wanted = version.empty() ? "0.1.0" : version;
  const auto& known = program.versions;
  return known.empty() || std::find(known.begin(), known.end(), wanted) != known.end();
}

}  // namespace

Findings check_plugins(const Node& node) {
  Findings out;
  const std::string dirs = joined(node.plugin_path, ":");
  for (const PluginFile& one : node.programs) {
    const Names users = users_of(node, one.type);
    const std::string why = cat("no pod can be added to network", users.size() == 1 ? " '" : "s '",
                                joined(users, "', '"), "'");
    if (one.file.empty()) {
      out.push_back({Level::kError, cat("plugin '", one.type, "' is not in ", dirs), why,
                     missing_remedy(node, one), users});
    } else if (one.is_on_noexec) {
      out.push_back(noexec_of(one, why, users));
    } else if (!one.is_executable) {
      out.push_back({Level::kError, cat("plugin '", one.file, "' is not executable"), why,
                     cat("chmod 755 ", one.file), users});
    } else if (!one.failure.empty()) {
      out.push_back(failure_of(one, why, users));
    }
  }
  return out;
}

Findings check_mixed_up(const Node& node) {
  Findings out;
  for (const auto& [dir, plugin, names] : node.mixed_up) {
    out.push_back(
        {Level::kError, cat("in ", dir, " '", joined(names, "', '"), "' run the plugin ", plugin),
         cat("somebody wrote over one of several names of a file, as cp does: every call of these "
             "names fails, or makes something else"),
         cat("patchbay install ", dir)});
  }
  return out;
}

Findings check_versions(const Node& node) {
  Findings out;
  for (const cni::NetworkList& list : node.networks.lists) {
    for (const cni::PluginConf& plugin : list.plugins) {
      const cni::PluginConf made = effective(plugin);
      for (const std::string& type : std::set{plugin.type, made.type, ipam_type_of(made)}) {
        const PluginFile* const program = node.program(type);
        if (program == nullptr || speaks(*program, list.version)) continue;
        out.push_back(
            {Level::kError,
             cat("network '", list.name, "' has cniVersion ", list.version, ", which plugin '",
                 type, "' does not support"),
             cat("it supports ", joined(program->versions, ", ")),
             cat("in ", list.file, " set \"cniVersion\": \"", program->versions.back(), "\""),
             {list.name}});
      }
    }
  }
  return out;
}

// A runtime takes the first file; others are for Multus, which has a CNI library of its own.
Findings check_runtimes(const Node& node) {
  Findings out;
  const auto& lists = node.networks.lists;
  const auto first = std::min_element(lists.begin(), lists.end(),
                                      [](const auto& a, const auto& b) { return a.file < b.file; });
  for (const cni::NetworkList& list : lists) {
    const auto doc = json_or_text(list.text);
    const auto written = doc.find("cniVersion");
    const bool is_there = written != doc.end() && written->is_string();
    const std::string single = is_there ? written->get<std::string>() : list.version;
    const auto advice = version_advice(single, list.version, node.runtimes);
    if (!advice || (!advice->is_refused && &list != &*first)) continue;
    const bool is_fatal = advice->is_refused && &list == &*first;
    out.push_back({!is_fatal        ? Level::kNote
                   : advice->by_all ? Level::kError
                                    : Level::kWarning,
                   cat("network '", list.name, "' has cniVersion ", single, ", ",
                       advice->is_refused ? "" : "but ", advice->what),
                   advice->why,
                   cat("in ", list.file, " set \"cniVersion\": \"", advice->version, "\""),
                   {list.name}});
  }
  return out;
}

Findings check_releases(const Node& node) {
  Findings out;
  const std::string own(cni::build_version());
  for (const PluginFile& one : node.programs) {
    for (const std::string& hidden : one.later) {
      out.push_back({Level::kNote, cat("plugin '", hidden, "' is hidden by '", one.file, "'"),
                     "the first directory of CNI_PATH with the plugin is used"});
    }
    if (one.patchbay.empty() || one.patchbay == own) continue;
    out.push_back(
        {Level::kWarning,
         cat("plugin '", one.file, "' is of patchbay ", one.patchbay, ", cnitool of ", own),
         "an incomplete update", cat("install -m 755 ", one.type, " ", one.file)});
  }
  return out;
}

Findings check_status(const Node& node) {
  Findings out;
  for (const Complaint& one : node.complaints) {
    const bool partly = one.error.code() == cni::Code::kLimitedConnectivity;
    const auto& details = one.error.details();
    out.push_back({partly ? Level::kWarning : Level::kError,
                   cat("network '", one.network, "': ", one.error.what(),
                       details.empty() ? "" : cat("; ", details)),
                   partly ? "ADD works only in part" : "no pod can be added to the network",
                   cat("cnitool status ", one.network),
                   {one.network}});
  }
  return out;
}

}  // namespace tool::doctor
