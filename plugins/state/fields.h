#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "libcni/config/conf.h"
#include "plugins/state/format.h"
#include "plugins/state/owner.h"

/// JSON of state files: one list of the members of a struct both writes and reads it.
///     template <> inline constexpr auto plugins::kFields<Device> =
///         std::tuple{plugins::Field{"name", &Device::name}, plugins::Field{"mtu", &Device::mtu}};
namespace plugins {

template <class Struct, class Member>
struct Field {
  const char* key;  ///< empty: the keys of the member are among those of the struct
  Member Struct::*member;
};
template <class Struct, class Member>
Field(const char*, Member Struct::*) -> Field<Struct, Member>;

template <class Struct>
inline constexpr auto kFields = nullptr;
template <>
inline constexpr auto kFields<cni::AttachmentKey> =
    std::tuple{Field{"network", &cni::AttachmentKey::network},
               Field{"containerID", &cni::AttachmentKey::container_id},
               Field{"ifname", &cni::AttachmentKey::ifname}};
template <>
inline constexpr auto kFields<StateOwner> =
    std::tuple{Field{"", &StateOwner::key}, Field{"netns", &StateOwner::netns},
               Field{"netnsCookie", &StateOwner::cookie}};

namespace fields {
using nlohmann::json;
template <class T>
inline constexpr bool kIsStruct = !std::same_as<decltype(kFields<T>), const std::nullptr_t>;
template <template <class...> class Template, class T>
inline constexpr bool kIs = false;
template <template <class...> class Template, class... Args>
inline constexpr bool kIs<Template, Template<Args...>> = true;

template <class T>
json write(const T& value);

template <class T>
void write_into(json& out, const T& value) {
  const auto each = [&]<class Struct, class Member>(const Field<Struct, Member>& field) {
    if (*field.key == '\0') {
      if constexpr (kIsStruct<Member>) write_into(out, value.*field.member);
    } else if (json one = write(value.*field.member); !one.is_null()) {
      out[field.key] = std::move(one);
    }
  };
  std::apply([&](const auto&... field) { (each(field), ...); }, kFields<T>);
}

/// An absent optional, and the largest time, is null, and has no key in a struct.
template <class T>
json write(const T& value) {
  if constexpr (kIsStruct<T>) {
    json out = json::object();
    write_into(out, value);
    return out;
  } else if constexpr (kIs<std::optional, T>) {
    return value ? write(*value) : json();
  } else if constexpr (kIs<std::vector, T> || kIs<std::map, T>) {
    json out = json::array();
    for (const auto& one : value) out.push_back(write(one));
    return out;
  } else if constexpr (kIs<std::pair, T>) {
    return json::array({write(value.first), write(value.second)});
  } else if constexpr (kIs<std::chrono::duration, T>) {
    return value == T::max() ? json() : json(value.count());
  } else if constexpr (requires { value.str(); }) {
    return value.str();
  } else {
    return value;
  }
}

/// \throws cni::Error for another content. A list without a key is empty.
template <class T>
T read(const cni::Reader& place) {
  if constexpr (kIsStruct<T>) {
    T out{};
    const auto each = [&]<class Struct, class Member>(const Field<Struct, Member>& field) {
      out.*field.member = read<Member>(*field.key == '\0' ? place : place[field.key]);
    };
    std::apply([&](const auto&... field) { (each(field), ...); }, kFields<T>);
    return out;
  } else if constexpr (kIs<std::optional, T>) {
    if constexpr (requires { T::value_type::parse(std::string()); }) {
      if (place.present() && place.as_string().empty()) return T();  // as 0.1.0 wrote it
    }
    return place.present() ? T(read<typename T::value_type>(place)) : T();
  } else if constexpr (kIs<std::vector, T>) {
    T out;
    for (const auto& one : place.elements()) out.push_back(read<typename T::value_type>(one));
    return out;
  } else if constexpr (kIs<std::map, T>) {
    T out;
    for (const cni::Reader& one : place.elements()) {
      const auto pair = one.elements();
      if (pair.size() != 2) one.fail("expected a key and its value");
      out[read<typename T::key_type>(pair[0])] = read<typename T::mapped_type>(pair[1]);
    }
    return out;
  } else if constexpr (std::same_as<T, bool>) {
    return place.as_bool();
  } else if constexpr (std::integral<T>) {
    constexpr std::int64_t kMax = std::min<std::uint64_t>(std::numeric_limits<T>::max(), INT64_MAX);
    return static_cast<T>(place.as_int(std::numeric_limits<T>::min(), kMax));
  } else if constexpr (kIs<std::chrono::duration, T>) {
    return place.present() ? T(read<typename T::rep>(place)) : T::max();
  } else if constexpr (std::same_as<T, std::string>) {
    return place.as_string();
  } else {
    if (const auto parsed = T::parse(place.as_string())) return *parsed;
    place.fail("cannot be parsed");
  }
}

}  // namespace fields

template <class State>
std::string json_text(const State& state) {
  return fields::write(state).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Empty: a torn file. \throws cni::Error: read_document().
template <class State>
std::optional<State> from_json_text(const std::string& text, const Reading& how = {}) {
  std::optional<State> out;
  read_document(text, how, [&](const cni::Reader& root) { out = fields::read<State>(root); });
  return out;
}

}  // namespace plugins
