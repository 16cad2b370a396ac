#include "plugins/devices/agent/handout.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "libcni/config/json.h"
#include "plugins/devices/agent/pools/attach.h"
#include "plugins/names/drivers.h"

namespace devices {

namespace {

using cni::cat;

constexpr const char* kPermissions = "rw";  // never "m": the node exists

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

void add(std::vector<Node>& out, const std::string& path) {
  const bool is_new =
      std::none_of(out.begin(), out.end(), [&](const Node& one) { return one.host_path == path; });
  if (is_new) out.push_back({path, path, kPermissions});
}

// The name in an earlier list: "device" of host-device. Empty: there is none.
std::string name_in(const std::string& plugins) {
  const nlohmann::json list = cni::try_parse_json(plugins);
  if (!list.is_array() || list.empty() || !list[0].is_object()) return {};
  const auto name = list[0].find("device");
  return name != list[0].end() && name->is_string() ? name->get<std::string>() : std::string();
}

}  // namespace

std::string variable_of(const std::string& resource) { return cat("PCIDEVICE_", folded(resource)); }

std::vector<Node> nodes_of(const Pool& pool, const Item& item, const Sysfs& sysfs) {
  std::vector<Node> out;
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
    for (const Node& node : nodes_of(pool, *item, sysfs)) add(out.nodes, node.host_path);
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
  const std::string name = has_link ? item.device->link->name : name_in(before);
  if (!by_name && (has_link || name.empty())) return text(by, id);
  if (!name.empty()) return text(SelectBy::kName, name);
  throw cni::Error(cni::Code::kTryAgainLater,
                   cat("allocate device '", id, "': its link does not exist"));
}

std::string with_link(const std::string& plugins, const std::string& name) {
  const std::string before = name_in(plugins);
  if (before.empty() || before == name) return plugins;
  auto list = cni::try_parse_ordered_json(plugins);
  list[0]["device"] = name;
  return list.dump();
}

}  // namespace devices
