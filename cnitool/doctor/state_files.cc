#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/leftovers.h"
#include "cnitool/doctor/places.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/json_at.h"
#include "cnitool/output.h"
#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/config/json.h"
#include "plugins/names/state.h"
#include "plugins/state/format.h"
#include "plugins/state/ledger_entry.h"

// State files that a later release of patchbay wrote, as a node has them after a downgrade.
namespace tool::doctor {

namespace {

using nlohmann::json;

std::string paths_of(const std::vector<const LaterFile*>& all) {
  Names out;
  for (const LaterFile* one : all) out.push_back(cat("'", one->path, "'"));
  return some_of(out);
}

std::string command_for(const Node& node, const std::string& network,
                        const std::vector<const LaterFile*>& all) {
  std::string out = "rm";
  for (const LaterFile* one : all) out += cat(" ", quoted(one->path));
  return node.network(network) == nullptr ? out : cat(out, "; ", collect(node, network));
}

// The plugins name the file in what they say of the pod.
bool is_said(const Node& node, const LaterFile& file) {
  const auto names_it = [&](const std::string& text) { return text.find(file.path) != text.npos; };
  return std::ranges::any_of(node.looks, [&](const Repaired& one) {
    const auto& [found, foreign, error] = one.report;
    return (error && names_it(text_of(*error))) ||
           std::ranges::any_of(found, [&](const auto& part) { return names_it(part.what); });
  });
}

bool is_asked_for(const Node& node, const LaterFile& file) {
  return !node.is_of_one_pod() ||
         std::ranges::any_of(file.owners, [&](const auto& key) { return node.which.has(key); });
}

// The cache and the links of the node decide first: the name of a namespace can be unmounted.
bool is_dead(const Node& node, const cni::AttachmentKey& key, const std::string& netns) {
  if (const auto* const own = find_by(node.attachments, &AttachmentState::key, key)) {
    return own->liveness == cni::Liveness::kNoNamespace;
  }
  const bool is_shown = std::ranges::any_of(
      node.unlisted, [&](const Unlisted& one) { return one.alias.starts_with(key.tag()); });
  return !is_shown && !netns.empty() &&
         cni::liveness_of(netns, key.ifname) == cni::Liveness::kNoNamespace;
}

// Each file of these names its pod. That of tuning may be the reference plugin's, and the ledger
// has devices of nobody.
bool names_no_pod(const std::string& path, const std::string& content, const json& document) {
  constexpr std::string_view kDirs[] = {names::kDhcpStateDir, names::kHostDeviceStateDir,
                                        names::kPortmapStateDir, names::kSbrStateDir,
                                        names::kVrfStateDir};
  return std::ranges::find(kDirs, path.substr(0, path.rfind('/'))) != std::end(kDirs) &&
         !document.empty() && content.find("\"containerID\"") == content.npos;
}

std::optional<LaterFile> later_file(const Node& node, const std::string& path,
                                    const std::string& content) try {
  const auto has = [&](const char* key) { return content.find(key) != content.npos; };
  if (has("\"containerID\"") && !has("\"format\"")) return std::nullopt;
  const json document = cni::parse_json(content, path);
  const bool is_entry =
      path.starts_with(cni::cat(names::kDevicesLedgerDir, "/")) && path[path.rfind('/') + 1] != '.';
  const int newest = is_entry ? devices::kClaimFormat : plugins::kStateFormat;
  if (plugins::later_format(document, newest).empty()) {
    if (!names_no_pod(path, content, document)) return std::nullopt;
    return LaterFile{.path = path, .owners = {}, .is_foreign = true};
  }
  LaterFile out{.path = path, .owners = {}, .is_dead = true};
  for (const json* one : plugins::state_objects(document)) {
    cni::AttachmentKey key{text_at(*one, "network"), text_at(*one, "containerID"),
                           text_at(*one, "ifname")};
    if (key.container_id.empty()) continue;
    out.is_dead = out.is_dead && is_dead(node, key, text_at(*one, "netns"));
    out.owners.push_back(std::move(key));
  }
  out.is_dead = out.is_dead && !out.owners.empty();
  return out;
} catch (const cni::Error&) {  // torn
  return std::nullopt;
}

// Those whose files are this project's own: others' may have any key. A config may name another.
std::set<std::string> own_state_dirs(const Node& node) {
  std::set<std::string> out, types;
  for (const names::StateFolder& one : names::kStateDirs) {
    const std::string_view dir = one.dir;
    if (!dir.starts_with(names::kRunDir) && dir != names::kDevicesLedgerDir) continue;
    out.emplace(dir);
    types.emplace(one.plugin);
  }
  for (const cni::NetworkList& list : node.networks.lists) {
    for (const cni::PluginConf& plugin : list.plugins) {
      const std::string dir = text_at(plugin.conf, "dataDir");
      if (types.contains(plugin.type) && dir.starts_with('/')) out.insert(dir);
    }
  }
  return out;
}

}  // namespace

Findings check_state_files(const Node& node) {
  std::map<std::string, std::vector<const LaterFile*>> dead;
  Findings out;
  for (const LaterFile& one : node.later_files) {
    if (!is_asked_for(node, one)) continue;
    if (one.is_foreign) {
      out.push_back({Level::kWarning,
                     cat("no release of patchbay wrote the state file '", one.path, "'"),
                     "no verb reads it", cat("mv ", quoted(one.path), " /var/tmp/")});
    } else if (one.is_dead) {
      dead[one.owners.front().network].push_back(&one);
    } else if (!is_said(node, one)) {
      out.push_back({Level::kError,
                     cat("a later release of patchbay wrote the state file '", one.path, "'"),
                     "no verb of this release reads it; DEL of its pod fails",
                     "install the version of patchbay that wrote it"});
    }
  }
  for (const auto& [network, all] : dead) {
    out.push_back({Level::kWarning,
                   cat("network '", network, "': a later release of patchbay wrote ",
                       counted(all.size(), "state file"), " of ",
                       all.size() == 1 ? "a pod that does not exist: " : "pods that do not exist: ",
                       paths_of(all)),
                   "gc of that release removes them and what they name; gc of this one fails",
                   command_for(node, network, all),
                   {network}});
  }
  return out;
}

std::vector<LaterFile> later_files(const Node& node) {
  std::vector<LaterFile> out;
  for (const std::string& path : own_state_dirs(node)) {
    const auto dir = cni::Dir::open(path);
    if (!dir) continue;
    for (const std::string& name : dir->names()) {
      const auto file = dir->read(name);
      if (!file) continue;
      if (auto one = later_file(node, cat(path, "/", name), file->content)) {
        out.push_back(*std::move(one));
      }
    }
  }
  std::ranges::sort(out, {}, &LaterFile::path);
  return out;
}

}  // namespace tool::doctor
