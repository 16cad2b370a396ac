#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "plugins/devices/agent/pools/pools.h"
#include "plugins/devices/agent/stock/stock.h"

/// Attributes of devices in ResourceSlices (DeviceAttribute of resource.k8s.io/v1). Names without a
/// domain belong to the driver.
namespace devices::dra {

using Json = nlohmann::json;

inline constexpr std::size_t kMaxAttributeText = 64;  ///< DeviceAttributeMaxValueLength

/// Collects attributes. What does not fit the limits of the API is left out: whoever may name a
/// link would else keep the whole slice from being published.
class Attributes {
 public:
  void text(const char* name, std::string_view value);
  void number(const char* name, std::int64_t value) { all_[name] = {{"int", value}}; }
  void flag(const char* name, bool value) { all_[name] = {{"bool", value}}; }
  Json take() { return std::move(all_); }

 private:
  Json all_ = Json::object();
};

/// Of a device that exists: `resource` and the names that dranet uses.
Json attributes_of(const Pool& pool, const Device& device);
/// Of slots. \param parent the device that they stand on; nullptr: there is none, or it vanished.
Json slot_attributes(const Pool& pool, const Device* parent);

/// The attributes of a device in a pod: those of its link as they were when the node saw it.
Json with_last_known(Json attributes, const Json& last_known);

}  // namespace devices::dra
