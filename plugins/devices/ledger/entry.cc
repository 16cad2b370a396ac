#include "plugins/devices/ledger/entry.h"

#include <algorithm>

#include "libcni/common/error.h"
#include "plugins/common/state/fields.h"

namespace plugins {

template <>
inline constexpr auto kFields<devices::Pod> =
    std::tuple{Field{"namespace", &devices::Pod::space}, Field{"name", &devices::Pod::name},
               Field{"uid", &devices::Pod::uid}};
template <>
inline constexpr auto kFields<devices::Holder> = std::tuple{
    Field{"", &devices::Holder::owner},          Field{"interface", &devices::Holder::interface},
    Field{"plugins", &devices::Holder::plugins}, Field{"result", &devices::Holder::result},
    Field{"pod", &devices::Holder::pod},         Field{"started", &devices::Holder::started}};
template <>
inline constexpr auto kFields<devices::Entry> =
    std::tuple{Field{"id", &devices::Entry::id},
               Field{"resource", &devices::Entry::resource},
               Field{"promised", &devices::Entry::promised},
               Field{"pod", &devices::Entry::pod},
               Field{"plugins", &devices::Entry::plugins},
               Field{"interface", &devices::Entry::ifname},
               Field{"holder", &devices::Entry::holder}};

}  // namespace plugins

namespace devices {

std::string Pod::str() const { return cni::cat(space, "/", name); }

bool Entry::is_of(const Pod& other) const {
  if (!pod) return false;
  return pod->uid.empty() ? pod->has_name_of(other) : pod->uid == other.uid;
}

std::string Entry::text() const { return plugins::json_text(*this); }

std::optional<Entry> Entry::from(const std::string& text) {
  auto out = plugins::from_json_text<Entry>(text);
  if (!out || !is_device_id(out->id) || out->resource.empty()) return std::nullopt;
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
