#include "plugins/devices/agent/dra/slices/wanted.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <utility>

#include "libcni/common/error.h"
#include "plugins/devices/agent/dra/names.h"
#include "plugins/devices/agent/pools/quantity.h"
#include "plugins/names/drivers.h"

namespace devices::dra {

namespace {

using cni::cat;

// Below it a token bucket passes a packet of 1500 bytes in more than 12 ms.
constexpr std::int64_t kMinBandwidth = 1'000'000;
constexpr const char* kFunctions = "functions";

// The order is that of wanted_slices().
enum Rank : std::uint8_t { kPlain, kPart, kWhole, kTainted, kRanks };

bool is_pci_address(const std::string& id) { return std::ranges::count(id, ':') == 2; }

Json quantity(std::int64_t value) { return {{"value", quantity_text(value)}}; }

/// The devices of the pools, by rank.
class Sorting {
 public:
  Sorting(const Offering& of, const LastKnown& last_known) : of_(of), last_known_(last_known) {
    find_sets();
    for (std::size_t i = 0; i < of_.pools.pools.size(); ++i) add(of_.pools.pools[i], items(i));
  }

  std::vector<Json> slices() {
    std::vector<Json> out;
    put(out, std::move(ranks_[kPlain]), kMaxSliceDevices);
    std::vector<Json> special;
    for (const Rank rank : {kPart, kWhole, kTainted}) {
      std::ranges::move(ranks_[rank], std::back_inserter(special));
    }
    put(out, std::move(special), kMaxSpecialDevices);
    put_sets(out);
    return out;
  }

 private:
  using Items = std::map<std::string, Item>;

  const Items& items(std::size_t pool) const {
    static const Items kNone;
    return of_.pools.pools[pool].device_plugin ? kNone : of_.stock.pools[pool];
  }

  // Physical functions that are offered as a whole beside virtual functions of theirs.
  void find_sets() {
    std::map<std::string, std::size_t> parts;
    std::set<std::string> wholes;
    for (std::size_t i = 0; i < of_.pools.pools.size(); ++i) {
      for (const auto& [id, item] : items(i)) {
        if (!item.device) continue;
        if (!item.device->physical_function.empty()) ++parts[item.device->physical_function];
        if (!item.device->virtual_functions.empty()) wholes.insert(id);
      }
    }
    for (const std::string& whole : wholes) {
      if (const auto count = parts.find(whole); count != parts.end()) sets_.insert(*count);
    }
  }

  void add(const Pool& pool, const Items& items) {
    if (items.empty()) return;
    if (pool.slots.empty()) {
      for (const auto& [id, item] : items) add(pool, item);
      return;
    }
    const Device* const parent = parent_of(pool.slots.front().parent);
    const Json attributes = slot_attributes(pool, parent);
    if (pool.slots.front().bandwidth > 0) return add_shared(pool, items, parent, attributes);
    for (const auto& [id, item] : items) {
      Json device = {{"name", device_name(id)}, {"attributes", attributes}};
      if (item.slot) device["attributes"]["slot"] = {{"int", *item.slot}};
      put(std::move(device), kPlain, item, parent);
    }
  }

  void add(const Pool& pool, const Item& item) {
    const Device device = item.device.value_or(Device{.id = item.offer.id});
    Json out = {{"name", device_name(device.id)}, {"attributes", attributes_of(pool, device)}};
    const bool is_away = !device.link && !names::is_user_space_driver(device.driver);
    const auto known = last_known_.find(out["name"].get_ref<const std::string&>());
    if (is_away && known != last_known_.end()) {
      // Nothing of the device is seen without hardware: all that was known stays.
      out["attributes"] = item.device ? with_last_known(std::move(out["attributes"]), known->second)
                                      : known->second;
      out["attributes"]["resource"] = {{"string", pool.resource}};
    }
    const Rank rank = consume(out, device);
    put(std::move(out), rank, item, &device);
  }

  // Lets the whole and its parts consume from one set of counters.
  Rank consume(Json& out, const Device& device) const {
    const bool is_part = sets_.contains(device.physical_function);
    if (!is_part && !sets_.contains(device.id)) return kPlain;
    const std::string& whole = is_part ? device.physical_function : device.id;
    const std::int64_t amount = is_part ? 1 : static_cast<std::int64_t>(sets_.at(whole));
    const Json used = {{"counterSet", device_name(whole)},
                       {"counters", {{kFunctions, quantity(amount)}}}};
    out["consumesCounters"] = Json::array({used});
    return is_part ? kPart : kWhole;
  }

  const Device* parent_of(const std::string& name) const {
    for (const KeptBack& one : of_.stock.kept_back) {
      if (one.device.link && one.device.link->name == name) return &one.device;
    }
    return nullptr;
  }

  void add_shared(const Pool& pool, const Items& items, const Device* parent, Json attributes) {
    const Slots& slots = pool.slots.front();
    const auto count = static_cast<std::int64_t>(items.size());
    const std::int64_t share = default_bandwidth(slots.bandwidth, items.size());
    Json one = quantity(count), rate = quantity(slots.bandwidth);
    one["requestPolicy"] = {{"default", "1"}, {"validRange", {{"min", "1"}, {"max", "1"}}}};
    rate["requestPolicy"] = {
        {"default", quantity_text(share)},
        {"validRange", {{"min", quantity_text(std::min(share, kMinBandwidth))}}}};
    put({{"name", device_name(shared_id(slots.parent, pool.type()))},
         {"attributes", std::move(attributes)},
         {"allowMultipleAllocations", true},
         {"capacity", {{"slots", std::move(one)}, {"bandwidth", std::move(rate)}}}},
        kPlain, items.begin()->second, parent);
  }

  // Why no further pod should get it; empty: it may.
  std::string taint(const Item& item, const Device* link_of) const {
    // PCI devices are listed wherever their link is.
    const bool is_vanished = !item.device && !item.slot && is_pci_address(item.offer.id);
    if (item.offer.healthy && !is_vanished) return {};
    const bool has_link = item.is_present && link_of != nullptr && link_of->link;
    const bool is_cut = has_link && link_of->link->up && !link_of->link->carrier;
    return cat(of_.driver, is_cut ? "/no-carrier" : "/unavailable");
  }

  void put(Json device, Rank rank, const Item& item, const Device* link_of) {
    const Features& kept = of_.features;
    if (rank == kWhole && !kept.counters) return;
    if (device.contains("allowMultipleAllocations") && !kept.shares) return;
    if (!kept.counters) device.erase("consumesCounters");
    if (const std::string key = taint(item, link_of); !key.empty()) {
      if (!kept.taints) return;
      const Json one = {{"key", key}, {"effect", "NoSchedule"}};
      device["taints"] = Json::array({one});
      rank = kTainted;
    } else if (!kept.counters) {
      rank = kPlain;
    }
    // Two IDs have one name only by a collision of hashes.
    if (names_.insert(device["name"].get<std::string>()).second) {
      ranks_[rank].push_back(std::move(device));
    }
  }

  static void put(std::vector<Json>& out, std::vector<Json> devices, std::size_t most) {
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (i % most == 0) out.push_back({{"devices", Json::array()}});
      out.back()["devices"].push_back(std::move(devices[i]));
    }
  }

  void put_sets(std::vector<Json>& out) const {
    std::size_t i = 0;
    for (const auto& [whole, parts] : sets_) {
      if (!of_.features.counters) return;
      if (i++ % kMaxSliceCounterSets == 0) out.push_back({{"sharedCounters", Json::array()}});
      out.back()["sharedCounters"].push_back(
          {{"name", device_name(whole)},
           {"counters", {{kFunctions, quantity(static_cast<std::int64_t>(parts))}}}});
    }
  }

  const Offering& of_;
  const LastKnown& last_known_;
  std::map<std::string, std::size_t> sets_;  // PCI address of the whole, number of its parts
  std::array<std::vector<Json>, kRanks> ranks_;
  std::set<std::string> names_;
};

}  // namespace

std::vector<Json> wanted_slices(const Offering& of, const LastKnown& last_known) {
  return Sorting(of, last_known).slices();
}

LastKnown attributes_in(const std::vector<Json>& contents) {
  LastKnown out;
  for (const Json& content : contents) {
    const auto devices = content.find("devices");
    if (devices == content.end() || !devices->is_array()) continue;
    for (const Json& device : *devices) {
      if (!device.is_object()) continue;
      const auto name = device.find("name"), attributes = device.find("attributes");
      if (name == device.end() || !name->is_string()) continue;
      if (attributes == device.end() || !attributes->is_object()) continue;
      if (!attributes->contains("ifName")) continue;  // it had no link that a pod could have
      out.emplace(name->get<std::string>(), *attributes);
    }
  }
  return out;
}

std::int64_t default_bandwidth(std::int64_t bandwidth, std::size_t slots) {
  return std::max<std::int64_t>(
      1, bandwidth / static_cast<std::int64_t>(std::max<std::size_t>(1, slots)));
}

}  // namespace devices::dra
