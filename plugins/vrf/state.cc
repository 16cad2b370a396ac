#include "plugins/vrf/state.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "libcni/config/conf.h"
#include "libcni/config/json.h"

namespace vrf {

using nlohmann::json;

std::string State::file_name() const { return file_of(owner.container_id, owner.ifname); }

std::string State::text() const {
  json out = plugins::json_of(owner);
  out["vrf"] = vrf;
  out["table"] = table;
  out["index"] = index;
  out["keepsVRF"] = keeps_vrf;
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<State> State::from(const std::string& text) try {
  const json doc = cni::parse_json(text, "it");
  const cni::Reader root(doc);
  State out{.owner = plugins::owner_from(root), .vrf = root["vrf"].as_string()};
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  out.table = static_cast<std::uint32_t>(root["table"].as_int(1, kMost));
  out.index = static_cast<int>(root["index"].as_int(1, std::numeric_limits<int>::max()));
  out.keeps_vrf = root["keepsVRF"].as_bool();
  return out;
} catch (const cni::Error&) {
  return std::nullopt;
}

std::string file_of(const std::string& container_id, const std::string& ifname) {
  return cni::OwnerTag("", container_id, ifname).instance_hash;
}

}  // namespace vrf
