#include "plugins/devices/agent/files/cdi.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "libcni/config/json.h"
#include "plugins/devices/agent/files/readable.h"

namespace devices {

namespace {

using cni::cat;
using cni::Dir;
using Json = nlohmann::ordered_json;

constexpr std::string_view kPrefix = "patchbay-";
constexpr std::string_view kSuffix = ".json";
constexpr std::size_t kHash = 8;  // digits, with a hyphen before them

Json json_of(const CdiEdits& edits) {
  Json out = Json::object();
  for (const auto& [name, value] : edits.environment) out["env"].push_back(cat(name, "=", value));
  for (const Node& node : edits.nodes) {
    Json one = {{"path", node.container_path}};
    if (node.host_path != node.container_path) one["hostPath"] = node.host_path;
    one["permissions"] = node.permissions;
    out["deviceNodes"].push_back(std::move(one));
  }
  return out;
}

// CDI's specs-go/config.go: hostPath and names that begin with a digit came with 0.5.0.
const char* version_of(const Json& devices) {
  for (const Json& device : devices) {
    const std::string name = device["name"].get<std::string>();
    if (name[0] >= '0' && name[0] <= '9') return "0.5.0";
    const Json& edits = device["containerEdits"];
    const auto nodes = edits.find("deviceNodes");
    if (nodes == edits.end()) continue;
    for (const Json& node : *nodes) {
      if (node.contains("hostPath")) return "0.5.0";
    }
  }
  return "0.3.0";
}

std::string spec_of(const std::string& resource, Json devices) {
  const char* const version = version_of(devices);
  return Json{
             {"cdiVersion", version}, {"kind", cdi_kind(resource)}, {"devices", std::move(devices)}}
             .dump(2) +
         '\n';
}

std::string id_in(const std::string& name) {
  return name.size() > kHash + 1 ? name.substr(0, name.size() - kHash - 1) : std::string();
}

std::string name_of(const std::string& id, const Json& edits) {
  return cat(id, "-", cni::sha512_hex(cat(id, edits.dump()), kHash));
}

bool is_whole(const Json& device) {
  return device.is_object() && device.contains("name") && device["name"].is_string() &&
         device.contains("containerEdits") && device["containerEdits"].is_object();
}

bool is_ours(const Json& device) {
  if (!is_whole(device)) return false;
  const std::string name = device["name"].get<std::string>();
  return name == name_of(id_in(name), device["containerEdits"]);
}

// The resource whose file has the name: a domain has no underscore.
std::string resource_of(const std::string& file) {
  if (!file.starts_with(kPrefix) || !file.ends_with(kSuffix)) return {};
  if (file.size() <= kPrefix.size() + kSuffix.size()) return {};
  std::string out = file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size());
  const auto slash = out.find('_');
  if (slash == out.npos || slash == 0 || slash + 1 == out.size()) return {};
  out[slash] = '/';
  return out;
}

bool is_of_kind(const Json& doc, const std::string& resource) {
  return doc.is_object() && doc.contains("kind") && doc["kind"] == cdi_kind(resource);
}

bool is_ours(const std::string& file, const std::string& text) {
  const std::string resource = resource_of(file);
  const Json doc = cni::try_parse_ordered_json(text);
  if (resource.empty() || !is_of_kind(doc, resource) || !doc.contains("devices")) return false;
  const Json& devices = doc["devices"];
  return devices.is_array() && !devices.empty() &&
         std::ranges::all_of(devices, [](const Json& one) { return is_ours(one); });
}

// Devices of a file that are not among the new ones and stay. None of a file that is not ours.
void add_kept(Json& out, const std::string& text,
              const std::function<bool(const std::string& id)>& is_kept) {
  const Json doc = cni::try_parse_ordered_json(text);
  if (!doc.is_object() || !doc.contains("devices") || !doc["devices"].is_array()) return;
  for (const Json& device : doc["devices"]) {
    if (!is_whole(device) || !is_kept(id_in(device["name"].get<std::string>()))) continue;
    const bool is_new = std::none_of(
        out.begin(), out.end(), [&](const Json& one) { return one["name"] == device["name"]; });
    if (is_new) out.push_back(device);
  }
}

}  // namespace

std::string cdi_kind(const std::string& resource) {
  const auto slash = resource.find('/');
  std::string vendor = resource.substr(0, slash), name = resource.substr(slash + 1);
  std::replace(name.begin(), name.end(), '.', '_');
  // Both begin with a letter.
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (is_digit(vendor[0])) vendor = cat("d", vendor);
  if (is_digit(name[0])) name = cat("r", name);
  return cat(vendor, "/", name);
}

std::string cdi_name(const std::string& id, const CdiEdits& edits) {
  return name_of(id, json_of(edits));
}

std::string cdi_file(const std::string& resource) {
  // The kind of two resources can be one.
  std::string out = cat(kPrefix, resource, kSuffix);
  std::replace(out.begin(), out.end(), '/', '_');
  return out;
}

std::string cdi_spec(const std::string& resource, const std::map<std::string, CdiEdits>& devices) {
  Json list = Json::array();
  for (const auto& [name, edits] : devices) {
    list.push_back({{"name", name}, {"containerEdits", json_of(edits)}});
  }
  return spec_of(resource, std::move(list));
}

void write_cdi(const std::string& dir_path, const std::string& resource,
               const std::map<std::string, CdiEdits>& devices,
               const std::function<bool(const std::string& id)>& is_kept) {
  const Dir dir = Dir::create(dir_path);
  const std::string name = cdi_file(resource);
  const auto before = dir.read(name);
  Json list = Json::array();
  for (const auto& [device, edits] : devices) {
    list.push_back({{"name", device}, {"containerEdits", json_of(edits)}});
  }
  if (before) {
    const Json doc = cni::try_parse_ordered_json(before->content);  // a torn one is none
    if (doc.is_object() && !is_of_kind(doc, resource)) {
      throw cni::Error(cni::Code::kInvalidConfig,
                       cat("write '", dir.path(), "/", name, "': it is a spec of another kind"),
                       "another program's, or a person's: move it away");
    }
    add_kept(list, before->content, is_kept);
  }
  if (list.empty()) {
    dir.remove(name);
    return;
  }
  const std::string text = spec_of(resource, std::move(list));
  if (before && before->content == text) return;
  write_readable(dir, name, text, 0644);  // users' containers have devices, too
}

void remove_other_cdi(const std::string& dir_path, const std::set<std::string>& resources) {
  const auto dir = Dir::open(dir_path);
  if (!dir) return;
  std::set<std::string> kept;
  for (const std::string& one : resources) kept.insert(cdi_file(one));
  for (const std::string& name : dir->names()) {
    if (kept.contains(name) || resource_of(name).empty()) continue;
    const auto file = dir->read(name);
    if (file && is_ours(name, file->content)) dir->remove(name);
  }
}

}  // namespace devices
