#include "plugins/devices/agent/handout.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "libcni/config/json.h"
#include "plugins/devices/agent/files.h"
#include "plugins/names/drivers.h"

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
  for (const std::string& path : edits.nodes) {
    out["deviceNodes"].push_back({{"path", path}, {"permissions", kNodePermissions}});
  }
  return out;
}

// CDI's specs-go/config.go: names that begin with a digit came with 0.5.0.
const char* version_of(const Json& devices) {
  const bool has_digit = std::ranges::any_of(devices, [](const Json& device) {
    const char first = device["name"].get<std::string>()[0];
    return first >= '0' && first <= '9';
  });
  return has_digit ? "0.5.0" : "0.3.0";
}

Json list_of(const std::map<std::string, CdiEdits>& devices) {
  Json out = Json::array();
  for (const auto& [name, edits] : devices) {
    out.push_back({{"name", name}, {"containerEdits", json_of(edits)}});
  }
  return out;
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
    const bool is_new =
        std::ranges::none_of(out, [&](const Json& one) { return one["name"] == device["name"]; });
    if (is_new) out.push_back(device);
  }
}

std::string folded(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') {
      c = static_cast<char>(c - 'a' + 'A');
    } else if (!((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))) {
      c = '_';
    }
  }
  return text;
}

void add(std::vector<std::string>& out, const std::string& path) {
  if (std::ranges::find(out, path) == out.end()) out.push_back(path);
}

// Those of its driver, its RDMA nodes, those of the pool.
std::vector<std::string> nodes_of(const Pool& pool, const Item& item, const Sysfs& sysfs) {
  std::vector<std::string> out;
  if (item.device && !item.device->pci.empty()) {
    if (names::is_user_space_driver(item.device->driver)) {
      for (const std::string& path : sysfs.user_space_nodes(item.device->pci)) add(out, path);
    }
    if (pool.rdma) {
      for (const std::string& path : sysfs.rdma_nodes(item.device->pci)) add(out, path);
    }
  }
  for (const std::string& path : pool.nodes) add(out, path);
  return out;
}

}  // namespace

std::string cdi_kind(const std::string& resource) {
  const auto slash = resource.find('/');
  std::string vendor = resource.substr(0, slash), name = resource.substr(slash + 1);
  std::ranges::replace(name, '.', '_');
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
  std::ranges::replace(out, '/', '_');
  return out;
}

std::string cdi_spec(const std::string& resource, const std::map<std::string, CdiEdits>& devices) {
  return spec_of(resource, list_of(devices));
}

void write_cdi(const std::string& dir_path, const std::string& resource,
               const std::map<std::string, CdiEdits>& devices,
               const std::function<bool(const std::string& id)>& is_kept) {
  const Dir dir = Dir::create(dir_path);
  const std::string name = cdi_file(resource);
  const auto before = dir.read(name);
  Json list = list_of(devices);
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

std::string variable_of(const std::string& resource) { return cat("PCIDEVICE_", folded(resource)); }

CdiEdits edits_of(const Pool& pool, const Item& item, const Sysfs& sysfs) {
  // A device without any edit is not valid; PCIDEVICE_* has the ids of several.
  CdiEdits out{.environment = {}, .nodes = nodes_of(pool, item, sysfs)};
  out.environment.emplace(cat("PATCHBAY_DEVICE_", folded(item.offer.id)), item.offer.id);
  return out;
}

Handout handout_of(const Pool& pool, const std::vector<const Item*>& items, const Sysfs& sysfs) {
  Handout out;
  std::string ids;
  for (const Item* item : items) {
    ids += cat(ids.empty() ? "" : ",", item->offer.id);
    if (pool.cdi) {
      const std::string name = cdi_name(item->offer.id, edits_of(pool, *item, sysfs));
      out.cdi.push_back(cat(cdi_kind(pool.resource), "=", name));
      continue;
    }
    for (const std::string& path : nodes_of(pool, *item, sysfs)) add(out.nodes, path);
  }
  out.environment.emplace(variable_of(pool.resource), std::move(ids));
  return out;
}

std::string plugins_text(const Pool& pool, const Item& item, const std::string& before) {
  const auto text = [&](const auto&... what) {
    return plugins_with(pool, keys_added(pool, what...)).dump();
  };
  const std::string& id = item.offer.id;
  if (item.slot) return text(*item.slot);
  const bool is_auxiliary = item.device && item.device->bus == Bus::kAuxiliary;
  const auto by = is_auxiliary ? SelectBy::kAuxiliary : SelectBy::kPci;
  if (!takes_link_names(pool) && is_hardware_id(id)) return text(by, id);
  const bool has_link = item.device && item.device->link;
  // host-device refuses a link that the node uses unless its name selects it.
  const bool by_name = !item.device || item.device->bus == Bus::kNone || item.is_forced;
  const std::string name = has_link ? item.device->link->name : link_in(before);
  if (!by_name && (has_link || name.empty())) return text(by, id);
  if (!name.empty()) return text(SelectBy::kName, name);
  throw cni::Error(cni::Code::kTryAgainLater,
                   cat("allocate device '", id, "': its link does not exist"));
}

std::string link_in(const std::string& plugins) {
  const nlohmann::json list = cni::try_parse_json(plugins);
  if (!list.is_array() || list.empty() || !list[0].is_object()) return {};
  const auto name = list[0].find("device");
  return name != list[0].end() && name->is_string() ? name->get<std::string>() : std::string();
}

std::string with_link(const std::string& plugins, const std::string& name) {
  const std::string before = link_in(plugins);
  if (before.empty() || before == name) return plugins;
  auto list = cni::try_parse_ordered_json(plugins);
  list[0]["device"] = name;
  return list.dump();
}

}  // namespace devices
