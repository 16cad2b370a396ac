#include "plugins/sbr/state.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "libcni/config/conf.h"
#include "libcni/config/json.h"

namespace sbr {

namespace {

using cni::Reader;
using nlohmann::json;

constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();

}  // namespace

bool State::has_rule(const netlink::Ip& address, std::uint32_t table) const {
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i] == address && tables[i] == table) return true;
  }
  return false;
}

std::string State::file_name() const {
  return cni::OwnerTag(owner.network, owner.container_id, owner.ifname).prefix();
}

std::string State::text() const {
  json out = plugins::json_of(owner);
  out["tables"] = tables;
  out["moved"] = moved;
  out["routes"] = routes;
  out["hints"] = hints;
  json& list = out["addresses"] = json::array();
  for (const auto& address : addresses) list.push_back(address.str());
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<State> State::from(const std::string& text) try {
  const json doc = cni::parse_json(text, "it");
  const Reader root(doc);
  State out{.owner = plugins::owner_from(root)};
  for (const Reader& one : root["addresses"].elements()) out.addresses.push_back(one.as_ip());
  for (const Reader& one : root["tables"].elements()) {
    out.tables.push_back(static_cast<std::uint32_t>(one.as_int(1, kMost)));
  }
  out.moved = root["moved"].as_strings();
  root.into("routes", out.routes);  // absent in files of earlier releases
  root.into("hints", out.hints);
  if (out.tables.size() != out.addresses.size())
    root["tables"].fail("expected one for each address");
  return out;
} catch (const cni::Error&) {
  return std::nullopt;
}

std::string file_of(const cni::Request& request) {
  return cni::OwnerTag(request.network, request.container_id, request.ifname).prefix();
}

}  // namespace sbr
