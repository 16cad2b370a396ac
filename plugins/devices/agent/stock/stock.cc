#include "plugins/devices/agent/stock/stock.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "libcni/common/error.h"
#include "plugins/names/drivers.h"

namespace devices {

namespace {

using cni::cat;

// Globs of one key; none: the key is not given.
bool matches(const std::vector<std::string>& globs, const std::vector<std::string>& values) {
  if (globs.empty()) return true;
  for (const std::string& glob : globs) {
    for (const std::string& value : values) {
      // In any case: hexadecimal digits are written in both.
      if (!value.empty() && ::fnmatch(glob.c_str(), value.c_str(), FNM_CASEFOLD) == 0) return true;
    }
  }
  return false;
}

// "8086" and "0x8086".
std::vector<std::string> hexadecimal(const std::string& digits) {
  return {digits, digits.empty() ? "" : cat("0x", digits)};
}

bool matches(const Selector& selector, const Device& of) {
  const bool is_auxiliary = of.bus == Bus::kAuxiliary;
  const DeviceLink link = of.link.value_or(DeviceLink{});
  return matches(selector.pci, {of.pci}) &&
         matches(selector.auxiliary, {is_auxiliary ? of.id : ""}) &&
         matches(selector.vendor, hexadecimal(of.vendor)) &&
         matches(selector.device, hexadecimal(of.device)) &&
         matches(selector.driver, {of.driver}) && matches(selector.name, {link.name}) &&
         matches(selector.parent, {of.physical_link, of.physical_function, link.parent}) &&
         matches(selector.kind, {link.kind});
}

bool selects(const Pool& pool, const Device& device) {
  return std::ranges::any_of(pool.devices,
                             [&](const Selector& one) { return matches(one, device); });
}

// Whether the pool's first plugin can be told which device it is.
bool takes(const Pool& pool, const Device& device) {
  return is_hardware_id(device.id) || takes_link_names(pool);
}

bool forces(const Pool& pool, const Device& device) {
  return device.link && device.forcible &&
         std::ranges::find(pool.force, device.link->name) != pool.force.end();
}

/// The stock while it is taken.
class Taking {
 public:
  Taking(const Pools& pools, const std::vector<Device>& devices, const Entries& entries)
      : pools_(pools.pools), devices_(devices), entries_(entries) {
    stock_.pools.resize(pools_.size());
    for (std::size_t i = 0; i < pools_.size(); ++i) {
      index_.emplace(pools_[i].resource, i);
      if (!pools_[i].slots.empty()) add_slots(i);
    }
    for (const Device& device : devices_) add(device);
    for (const auto& [id, entry] : entries_) add_away(entry);
  }

  Stock take() { return std::move(stock_); }

 private:
  const Device* with_link(const std::string& name) const {
    for (const Device& device : devices_) {
      if (device.link && device.link->name == name) return &device;
    }
    return nullptr;
  }

  void add_slots(std::size_t pool) {
    const Slots& slots = pools_[pool].slots.front();
    const Device* const parent = slots.parent.empty() ? nullptr : with_link(slots.parent);
    const bool is_present = slots.parent.empty() || parent != nullptr;
    const bool is_up = parent == nullptr || (parent->link->up && parent->link->carrier);
    if (!slots.parent.empty()) parents_.emplace(slots.parent, pools_[pool].resource);
    for (const unsigned number : slots.numbers()) {
      const std::string id = pools_[pool].slot_id(number);
      const bool is_free = !is_of_other(entry_of(id), pool);
      Item item{
          .offer = {id, is_present && is_up && is_free}, .slot = number, .is_present = is_present};
      if (parent != nullptr) item.offer.numa = parent->numa;
      stock_.pools[pool].emplace(id, std::move(item));
    }
  }

  const Entry* entry_of(const std::string& id) const {
    const auto found = entries_.find(id);
    return found == entries_.end() || found->second.resource.empty() ? nullptr : &found->second;
  }

  bool is_of_other(const Entry* entry, std::size_t pool) const {
    return entry != nullptr && entry->resource != pools_[pool].resource;
  }

  // Why a pool that selects the device does not have it; empty: it does.
  std::string obstacle(const Pool& pool, const Device& device) const {
    if (!takes(pool, device)) {
      return cat("plugin ", pool.type(), " takes PCI and auxiliary devices alone");
    }
    if (forces(pool, device)) return {};
    return device.kept_back.empty() ? slots_on(device) : device.kept_back;
  }

  std::string slots_on(const Device& device) const {
    const auto parent = device.link ? parents_.find(device.link->name) : parents_.end();
    return parent == parents_.end() ? "" : cat("slots of ", parent->second, " stand on it");
  }

  void add(const Device& device) {
    const Entry* const entry = entry_of(device.id);
    const auto owner = entry == nullptr ? index_.end() : index_.find(entry->resource);
    if (owner != index_.end() && pools_[owner->second].slots.empty()) {
      return put(owner->second, device, entry);
    }
    std::string reason = device.kept_back.empty() ? "no pool selects it" : device.kept_back;
    for (std::size_t i = 0; i < pools_.size(); ++i) {
      if (!pools_[i].slots.empty() || !selects(pools_[i], device)) continue;
      reason = obstacle(pools_[i], device);
      if (reason.empty()) return put(i, device, entry);
    }
    if (auto slots = slots_on(device); !slots.empty()) reason = std::move(slots);
    stock_.kept_back.push_back({device, reason});
  }

  void put(std::size_t pool, const Device& device, const Entry* entry) {
    const bool is_held = entry != nullptr && entry->holder.has_value();
    const bool is_here = device.link || names::is_user_space_driver(device.driver);
    Item item{.offer = {device.id, is_healthy(device), device.numa},
              .device = device,
              .is_forced = forces(pools_[pool], device),
              .is_present = is_here || is_held};
    // In a pod its state is the pod's.
    if (!is_here && is_held) item.offer.healthy = true;
    if (is_of_other(entry, pool) || !takes(pools_[pool], device)) item.offer.healthy = false;
    stock_.pools[pool].emplace(device.id, std::move(item));
  }

  // A link in a pod that the node does not see.
  void add_away(const Entry& entry) {
    if (entry.resource.empty()) return;  // it cannot be read
    const auto owner = index_.find(entry.resource);
    if (owner == index_.end()) return add_of_former(entry);
    if (!pools_[owner->second].slots.empty()) return;
    const bool is_held = entry.holder.has_value();
    Item item{.offer = {entry.id, is_held}, .is_present = is_held};
    stock_.pools[owner->second].emplace(entry.id, std::move(item));  // unless it is there
  }

  // Keeps back a device of a pool that the config has no more.
  void add_of_former(const Entry& entry) {
    const auto is_listed = [&](const auto& pool) { return pool.contains(entry.id); };
    const auto is_kept = [&](const KeptBack& one) { return one.device.id == entry.id; };
    if (std::ranges::any_of(stock_.pools, is_listed)) return;
    const std::string reason = cat("a pod has it as ", entry.resource, ", which is no pool");
    const auto kept = std::ranges::find_if(stock_.kept_back, is_kept);
    if (kept != stock_.kept_back.end()) {
      kept->reason = reason;
    } else {
      stock_.kept_back.push_back({{.id = entry.id}, reason});
    }
  }

  const std::vector<Pool>& pools_;
  const std::vector<Device>& devices_;
  const Entries& entries_;
  std::map<std::string, std::size_t> index_;    // of resources
  std::map<std::string, std::string> parents_;  // of slots: name of the link, resource
  Stock stock_;
};

constexpr int kUnknownNode = -1, kNotOffered = -2;

/// Devices of one NUMA node that are left to choose.
struct Group {
  int node = 0;
  bool has_required = false;
  std::vector<std::string> ids;
};

// The best first: one that has a required device; else the smallest that is enough; else the
// largest. Devices whose node is unknown come after the others.
bool is_better(const Group& a, const Group& b, std::size_t wanted) {
  const auto rank = [wanted](const Group& of) {
    const bool is_enough = of.ids.size() >= wanted;
    const auto size = static_cast<std::ptrdiff_t>(of.ids.size());
    return std::tuple(of.node == kNotOffered, of.node == kUnknownNode, !of.has_required, !is_enough,
                      is_enough ? size : -size, of.node);
  };
  return rank(a) < rank(b);
}

}  // namespace

Stock stock_of(const Pools& pools, const std::vector<Device>& devices, const Entries& entries) {
  return Taking(pools, devices, entries).take();
}

std::vector<std::string> preferred_of(const Preference& asked,
                                      const std::map<std::string, std::optional<int>>& numa) {
  const auto node_of = [&numa](const std::string& id) {
    const auto found = numa.find(id);
    return found == numa.end() ? kNotOffered : found->second.value_or(kUnknownNode);
  };
  std::vector<std::string> out;
  std::set<std::string> taken;
  std::map<int, Group> groups;
  for (const std::string& id : asked.required) {
    if (out.size() == asked.size || !taken.insert(id).second) continue;
    out.push_back(id);
    groups[node_of(id)].has_required = true;
  }
  for (const std::string& id : std::set(asked.available.begin(), asked.available.end())) {
    if (!taken.contains(id)) groups[node_of(id)].ids.push_back(id);
  }
  for (auto& [node, group] : groups) group.node = node;
  while (out.size() < asked.size && !groups.empty()) {
    const std::size_t wanted = asked.size - out.size();
    const auto best = std::ranges::min_element(groups, [&](const auto& a, const auto& b) {
      return is_better(a.second, b.second, wanted);
    });
    for (const std::string& id : best->second.ids) {
      if (out.size() < asked.size) out.push_back(id);
    }
    groups.erase(best);
  }
  return out;
}

}  // namespace devices
