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
  out["routes"] = routes;
  if (ipv6) {
    out["ipv6"] = {{"keepAddrOnDown", ipv6->keep_addr_on_down}, {"acceptDad", ipv6->accept_dad}};
  }
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<State> State::from(const std::string& text) try {
  const json doc = cni::parse_json(text, "it");
  const cni::Reader root(doc);
  State out{.owner = plugins::owner_from(root), .vrf = root["vrf"].as_string()};
  constexpr std::int64_t kMostTable = std::numeric_limits<std::uint32_t>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<int>::min();
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  out.table = static_cast<std::uint32_t>(root["table"].as_int(1, kMostTable));
  out.index = static_cast<int>(root["index"].as_int(1, kMost));
  out.keeps_vrf = root["keepsVRF"].as_bool();
  out.routes = root["routes"].as_strings();
  if (const cni::Reader ipv6 = root["ipv6"]; ipv6.present()) {
    out.ipv6 = {.keep_addr_on_down = static_cast<int>(ipv6["keepAddrOnDown"].as_int(kLeast, kMost)),
                .accept_dad = static_cast<int>(ipv6["acceptDad"].as_int(kLeast, kMost))};
  }
  return out;
} catch (const cni::Error&) {
  return std::nullopt;
}

std::string file_of(const std::string& container_id, const std::string& ifname) {
  return cni::OwnerTag("", container_id, ifname).instance_hash;
}

}  // namespace vrf
