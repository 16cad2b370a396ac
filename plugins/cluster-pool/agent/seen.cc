#include "plugins/cluster-pool/agent/seen.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "libcni/config/json.h"

namespace block_agent {

using cni::cat;

namespace {

constexpr const char* kSeenFile = ".seen";

}  // namespace

Seen Seen::read(const blocks::Folder& folder) {
  Seen out;
  const auto file = folder.dir().read(kSeenFile);
  if (!file) return out;
  const auto doc = cni::try_parse_json(file->content);
  if (!doc.is_object() || !doc.contains("cluster") || !doc["cluster"].is_string()) return out;
  out.cluster = doc["cluster"].get<std::string>();
  const auto settling = doc.find("settling");
  out.is_settling = settling != doc.end() && settling->is_boolean() && settling->get<bool>();
  const auto revisions = doc.find("revisions");
  if (revisions == doc.end() || !revisions->is_array()) return out;
  for (std::size_t i = 0; i < revisions->size() && i < std::size(kKinds); ++i) {
    if ((*revisions)[i].is_number_unsigned()) {
      out.revisions[kKinds[i]] = (*revisions)[i].get<std::uint64_t>();
    }
  }
  return out;
}

// To the disk: after a power loss an older file would take a restored engine for the same one.
void Seen::write(const blocks::Folder& folder) const {
  nlohmann::ordered_json doc = {
      {"cluster", cluster}, {"settling", is_settling}, {"revisions", nlohmann::json::array()}};
  for (const Kind kind : kKinds) {
    const auto found = revisions.find(kind);
    doc["revisions"].push_back(found == revisions.end() ? 0 : found->second);
  }
  folder.dir().replace_synced(kSeenFile, doc.dump(), cat(kSeenFile, ".new"));
}

void Seen::raise(const Object& object) {
  std::uint64_t& revision = revisions[object.kind];
  revision = std::max(revision, object.version);
}

}  // namespace block_agent
