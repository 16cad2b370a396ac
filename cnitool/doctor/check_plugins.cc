#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/places.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/node_runtimes.h"
#include "cnitool/output.h"
#include "cnitool/pool.h"
#include "libcni/common/version.h"
#include "libcni/plugin/plugin.h"

namespace tool::doctor {

namespace {

enum class Fault { kMissing, kMisspelt, kNoexec, kNotExecutable, kAnother, kFails };

// A type that is one letter off is the config's mistake.
std::string correction_of(const Node& node, const PluginFile& program) {
  if (program.similar.empty() || node.suite.plugins.contains(program.type)) return {};
  for (const cni::NetworkList& list : node.networks.lists) {
    for (const auto& plugin : list.plugins) {
      if (plugin.type == program.type) {
        return cat("in ", list.file, " set \"type\": \"", program.similar, "\" in the plugin \"",
                   program.type, "\"");
      }
      if (ipam_type_of(plugin) != program.type) continue;
      return cat("in ", list.file, " set \"type\": \"", program.similar, "\" in \"ipam\"");
    }
  }
  return {};
}

std::string dir_of(const std::string& file) { return file.substr(0, file.rfind('/')); }

// The folder for a plugin that is missing: that of the others.
std::string dir_for_plugins(const Node& node) {
  for (const PluginFile& one : node.programs) {
    if (!one.file.empty()) return dir_of(one.file);
  }
  return node.plugin_path.empty() ? "/opt/cni/bin" : node.plugin_path.front();
}

std::string fetch_and_install(const std::string& dir) {
  return cat("copy patchbay ", cni::build_version(),
             " to this node (docs/install.md), then ./patchbay install ", quoted(dir));
}

// The command that puts plugins of this project into a folder; all of them into one without any
// that runs, or if none is named.
std::string install_of(const Node& node, const std::string& dir, const Names& types) {
  if (node.suite.file.empty()) return fetch_and_install(dir);
  const bool is_whole = std::ranges::none_of(node.programs, [&](const PluginFile& one) {
    return !one.is_broken() && dir_of(one.file) == dir;
  });
  return cat(quoted(node.suite.file), " install ", quoted(dir),
             is_whole || types.empty() ? "" : cat(" --only ", joined(types, ",")));
}

// "error: run '/opt/cni/bin/host-local': exec format error" without the names.
std::string cause_of(const std::string& failure) {
  const auto colon = failure.rfind(": ");
  return colon == failure.npos ? failure : failure.substr(colon + 2);
}

/// Plugins that one cause breaks.
struct Broken {
  Fault fault = Fault::kMissing;
  std::string dir = {};     ///< in which they are, or belong
  std::string cause = {};   ///< of kFails; of kAnother, the plugin
  std::string remedy = {};  ///< of kMisspelt
  bool is_ours = true;      ///< the suite has them, or is not there
  bool is_used = true;      ///< by a network, else by attachments alone
  auto operator<=>(const Broken&) const = default;
};

Broken broken_by(const Node& node, const PluginFile& one) {
  Broken out{.dir = one.file.empty() ? dir_for_plugins(node) : dir_of(one.file),
             .is_ours = node.suite.file.empty() || node.suite.plugins.contains(one.type),
             .is_used = !users_of(node, one.type).empty()};
  if (one.file.empty()) {
    out.remedy = correction_of(node, one);
    if (!out.remedy.empty()) out.fault = Fault::kMisspelt;
    return out;
  }
  out.fault = one.is_on_noexec       ? Fault::kNoexec
              : !one.is_executable   ? Fault::kNotExecutable
              : !one.another.empty() ? Fault::kAnother
                                     : Fault::kFails;
  if (out.fault == Fault::kFails) out.cause = cause_of(one.failure);
  if (out.fault == Fault::kAnother) out.cause = one.another;
  return out;
}

std::string remedy_for(const Node& node, const Broken& how, const Names& types) {
  Names files;
  for (const std::string& type : types) files.push_back(quoted(cat(how.dir, "/", type)));
  switch (how.fault) {
    case Fault::kMisspelt:
      return how.remedy;
    case Fault::kNoexec:
      return cat("mount -o remount,exec $(findmnt -n -o TARGET -T ", quoted(how.dir), ")");
    case Fault::kNotExecutable:
      return cat("chmod 755 ", joined(files, " "));
    case Fault::kMissing:
    case Fault::kAnother:
    case Fault::kFails:
      break;
  }
  if (how.is_ours) return install_of(node, how.dir, types);
  return how.fault == Fault::kFails
             ? cat("CNI_COMMAND=VERSION ", files.front())
             : cat("put the executable of '", joined(types, "', '"), "' into ", how.dir);
}

// "plugins '/opt/cni/bin/bridge', '/opt/cni/bin/portmap'".
std::string files_text(const std::string& dir, const Names& types) {
  Names files;
  for (const std::string& type : types) files.push_back(cat("'", dir, "/", type, "'"));
  return cat(types.size() == 1 ? "plugin " : "plugins ", joined(files));
}

std::string text_for(const Node& node, const Broken& how, const Names& types) {
  const bool is_one = types.size() == 1;
  const bool is_missing = how.fault == Fault::kMissing || how.fault == Fault::kMisspelt;
  const std::string who = is_missing
                              ? cat(is_one ? "plugin '" : "plugins '", joined(types, "', '"), "'")
                              : files_text(how.dir, types);
  const char* const are = is_one ? " is" : " are";
  switch (how.fault) {
    case Fault::kNoexec:
      return cat(who, are, " on a file system that is mounted noexec");
    case Fault::kNotExecutable:
      return cat(who, are, " not executable");
    case Fault::kAnother:
      return cat(who, are, " the plugin ", how.cause);
    case Fault::kFails:
      return cat(who, is_one ? " fails" : " fail", " at VERSION: ", how.cause);
    default:
      return cat(who, are, " not in ", joined(node.plugin_path, ":"));
  }
}

// The networks of a plugin: those with a config, or else those of attachments.
std::set<std::string> networks_of(const Node& node, const std::string& type) {
  const Names used = users_of(node, type);
  std::set<std::string> out(used.begin(), used.end());
  for (const AttachmentState& one : node.attachments) {
    if (used.empty() && one.types.contains(type)) out.insert(one.key.network);
  }
  return out;
}

Finding finding_for(const Node& node, const Broken& how, const Names& types) {
  std::set<std::string> networks;
  for (const std::string& type : types) networks.merge(networks_of(node, type));
  const Names all(networks.begin(), networks.end());
  const std::string who = cat("network", all.size() == 1 ? " '" : "s '", joined(all, "', '"), "'");
  return {how.is_used ? Level::kError : Level::kWarning, text_for(node, how, types),
          how.is_used ? cat("no pod can be added to ", who, ", and none can be removed")
                      : cat("DEL of the pods of ", who, " fails"),
          remedy_for(node, how, types), all};
}

bool speaks(const PluginFile& program, const std::string& version) {
  const std::string wanted = version.empty() ? "0.1.0" : version;
  const auto& known = program.versions;
  return known.empty() || std::ranges::find(known, wanted) != known.end();
}

}  // namespace

// One cause is one finding, however many plugins it breaks.
Findings check_plugins(const Node& node) {
  std::map<Broken, Names> found;
  for (const PluginFile& one : node.programs) {
    if (one.is_broken()) found[broken_by(node, one)].push_back(one.type);
  }
  Findings out;
  for (auto& [how, types] : found) {
    std::ranges::sort(types);
    out.push_back(finding_for(node, how, types));
  }
  return out;
}

Findings check_versions(const Node& node) {
  Findings out;
  for (const cni::NetworkList& list : node.networks.lists) {
    for (const cni::PluginConf& plugin : list.plugins) {
      for (const std::string& type : types_of(plugin)) {
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
  const auto first =
      std::ranges::min_element(lists, [](const auto& a, const auto& b) { return a.file < b.file; });
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
  std::map<std::pair<std::string, std::string>, Names> others;  // types, by version and folder
  for (const PluginFile& one : node.programs) {
    for (const std::string& hidden : one.later) {
      out.push_back({Level::kNote, cat("plugin '", hidden, "' is hidden by '", one.file, "'"),
                     "the first directory of CNI_PATH with the plugin is used"});
    }
    if (one.patchbay.empty() || one.patchbay == own) continue;
    others[{one.patchbay, dir_of(one.file)}].push_back(one.type);
  }
  for (const auto& [where, types] : others) {
    const auto& [version, dir] = where;
    out.push_back(
        {Level::kWarning,
         cat(files_text(dir, types), types.size() == 1 ? " is" : " are", " of patchbay ", version,
             ", cnitool of ", own),
         "an incomplete update",
         node.suite.version == own ? install_of(node, dir, types) : fetch_and_install(dir)});
  }
  return out;
}

Findings check_status(const Node& node) {
  Findings out;
  for (const StatusError& one : node.complaints) {
    const bool partly = one.error.code() == cni::Code::kLimitedConnectivity;
    if (is_of_disk(node, text_of(one.error))) continue;
    const auto& details = one.error.details();
    out.push_back({partly ? Level::kWarning : Level::kError,
                   cat("network '", one.network, "': ", one.error.what(),
                       details.empty() ? "" : cat("; ", details)),
                   partly ? "ADD works only in part" : "no pod can be added to the network",
                   one.error.code() == cni::Code::kInvalidConfig
                       ? "cnitool validate  # shows the place of each error"
                       : cat("cnitool status ", one.network),
                   {one.network}});
  }
  return out;
}

}  // namespace tool::doctor
