#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cnitool/doctor/facts.h"
#include "cnitool/doctor/look.h"
#include "cnitool/json_at.h"
#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/config/json.h"
#include "plugins/names/state.h"
#include "plugins/state/format.h"

// State files that a later release of patchbay wrote.
namespace tool::doctor {

namespace {

using nlohmann::json;

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

std::optional<LaterFile> later_file(const Node& node, const std::string& path,
                                    const std::string& content) try {
  if (content.find("\"format\"") == content.npos) return std::nullopt;
  const json document = cni::parse_json(content, path);
  if (plugins::later_format(document).empty()) return std::nullopt;
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

// Those whose files are this project's own: others' may have any key.
std::set<std::string> state_dirs() {
  std::set<std::string> out;
  for (const names::StateFolder& one : names::kStateDirs) {
    const std::string_view dir = one.dir;
    if (dir.starts_with(names::kRunDir) || dir == names::kDevicesLedgerDir) out.emplace(dir);
  }
  return out;
}

}  // namespace

std::vector<LaterFile> later_files(const Node& node) {
  std::vector<LaterFile> out;
  for (const std::string& path : state_dirs()) {
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
