#include "plugins/devices/ledger/entry.h"

#include <algorithm>

#include "libcni/common/error.h"
#include "libcni/config/json.h"
#include "plugins/common/state/fields.h"

namespace plugins {

template <>
inline constexpr auto kFields<devices::Pod> =
    std::tuple{Field{"namespace", &devices::Pod::space}, Field{"name", &devices::Pod::name},
               Field{"uid", &devices::Pod::uid}};
template <>
inline constexpr auto kFields<devices::Holder> =
    std::tuple{Field{"", &devices::Holder::owner},
               Field{"interface", &devices::Holder::interface},
               Field{"resource", &devices::Holder::resource},
               Field{"plugins", &devices::Holder::plugins},
               Field{"promised", &devices::Holder::promised},
               Field{"pod", &devices::Holder::pod},
               Field{"started", &devices::Holder::started}};
template <>
inline constexpr auto kFields<devices::Entry> =
    std::tuple{Field{"id", &devices::Entry::id},
               Field{"resource", &devices::Entry::resource},
               Field{"promised", &devices::Entry::promised},
               Field{"pod", &devices::Entry::pod},
               Field{"plugins", &devices::Entry::plugins},
               Field{"interface", &devices::Entry::ifname}};

}  // namespace plugins

namespace devices {

using cni::cat;

std::string Pod::str() const { return cat(space, "/", name); }

std::string Holder::text() const {
  return cat(plugins::json_text(*this), "\n", result.empty() ? "" : line_of(result));
}

std::optional<Holder> Holder::from(const std::string& text) {
  const auto end = text.find('\n');
  if (end == text.npos) return std::nullopt;
  auto out = plugins::from_json_text<Holder>(text.substr(0, end));
  if (!out) return std::nullopt;
  std::string rest = text.substr(end + 1);
  if (!rest.ends_with('\n')) return out;  // ADD was killed while it wrote
  rest.pop_back();
  if (cni::try_parse_json(rest).is_object()) out->result = std::move(rest);
  return out;
}

void Entry::take(Holder by) {
  if (!by.result.empty() && by.promised == promised && by.pod == pod) promised = 0;
  holder = std::move(by);
}

bool Entry::is_held() const {
  if (!holder || !is_readable()) return false;
  const bool is_newest = promised == 0 || promised == holder->promised;
  return !is_wanted() || (is_newest && pod == holder->pod);
}

std::string Entry::text() const { return plugins::json_text(*this); }

std::optional<Entry> Entry::from(const std::string& text) {
  auto out = plugins::from_json_text<Entry>(text);
  if (out && (!is_device_id(out->id) || out->resource.empty())) {
    plugins::refuse_content("expected the ID of a device and its resource");
  }
  return out;
}

bool is_device_id(std::string_view id) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == ':' || c == '-';
  };
  return !id.empty() && id.size() <= kMaxId && id[0] != '.' && std::ranges::all_of(id, fits);
}

}  // namespace devices
