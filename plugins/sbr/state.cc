#include "plugins/sbr/state.h"

#include "plugins/state/fields.h"

namespace plugins {

template <>
inline constexpr auto kFields<sbr::State> =
    std::tuple{Field{"", &sbr::State::owner},        Field{"addresses", &sbr::State::addresses},
               Field{"tables", &sbr::State::tables}, Field{"moved", &sbr::State::moved},
               Field{"routes", &sbr::State::routes}, Field{"hints", &sbr::State::hints}};

}  // namespace plugins

namespace sbr {

bool State::has_rule(const netlink::Ip& address, std::uint32_t table) const {
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i] == address && tables[i] == table) return true;
  }
  return false;
}

std::string State::text() const { return plugins::json_text(*this); }

std::optional<State> State::from(const std::string& text) {
  auto out = plugins::from_json_text<State>(text);
  if (out && (out->tables.size() != out->addresses.size() || is_in(out->tables, 0U))) {
    plugins::refuse_content("tables: expected one for each address");
  }
  return out;
}

}  // namespace sbr
