#pragma once

#include <chrono>
#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcni/config/key.h"

/// Keys fill fields by the field's type: describe() completes the key's row of the table, read()
/// reads. For other types see custom() in libcni/config/keys.h.
namespace cni {

inline constexpr const char* kCidrForm =
    "an address with prefix length (CIDR notation, for example 10.1.2.0/24)";
inline constexpr const char* kMacForm =
    "a unicast MAC address other than zero, for example 02:00:5e:10:20:30";
/// "\"ifb\", \"pod\" or \"edt\"", "0 or 68 to 65535", "an IP address": what a value may be.
std::string expectation(const Key& key);
/// \throws Error where the number is not one that the key allows.
std::int64_t read_integer(const Reader& place, const Key& key);
/// A text that fits, as the key says; an empty one leaves field as it is where that is absent.
/// \throws Error where it does not fit.
void read_text(const Reader& place, const Key& key, std::string& field);
/// The index of the value in key.enumeration. \throws Error if it is none of them.
std::size_t read_enum(const Reader& place, const Key& key);

template <class T>
struct Value;

template <>
struct Value<bool> {
  static constexpr void describe(Key& key) {
    key.type = Type::kBool;
    if (key.default_text == nullptr) key.default_text = "false";
  }
  static void read(const Reader& place, const Key&, bool& field) { field = place.as_bool(); }
};

template <std::integral T>
struct Value<T> {
  static constexpr void describe(Key& key) {
    key.type = Type::kInteger;
    if (std::cmp_greater(key.maximum, std::numeric_limits<T>::max())) {
      key.maximum = std::numeric_limits<T>::max();
    }
  }
  static void read(const Reader& place, const Key& key, T& field) {
    field = static_cast<T>(read_integer(place, key));
  }
};

/// The place of a word in key.enumeration is the enumerator's number.
template <class T>
requires std::is_enum_v<T>
struct Value<T> {
  static constexpr void describe(Key& key) { key.type = Type::kEnum; }
  static void read(const Reader& place, const Key& key, T& field) {
    field = static_cast<T>(read_enum(place, key));
  }
};

template <>
struct Value<std::string> {
  static constexpr void describe(Key& key) { key.type = Type::kString; }
  static void read(const Reader& place, const Key&, std::string& field) {
    field = place.as_string();
  }
};

template <>
struct Value<std::chrono::milliseconds> {
  static constexpr void describe(Key& key) { key.type = Type::kInteger; }
  static void read(const Reader& place, const Key& key, std::chrono::milliseconds& field) {
    field = std::chrono::milliseconds(read_integer(place, key));
  }
};

template <>
struct Value<Ip> {
  static constexpr void describe(Key& key) { key.type = Type::kIp; }
  static void read(const Reader& place, const Key&, Ip& field) { field = place.as_ip(); }
};

template <>
struct Value<Cidr> {
  static constexpr void describe(Key& key) { key.type = Type::kCidr; }
  static void read(const Reader& place, const Key&, Cidr& field) { field = place.as_cidr(); }
};

/// An empty text leaves an optional address empty, as in the reference.
template <class T>
struct Value<std::optional<T>> {
  static constexpr bool kOfText = std::same_as<T, Ip> || std::same_as<T, Cidr>;
  static constexpr void describe(Key& key) {
    Value<T>::describe(key);
    key.or_empty = key.or_empty || kOfText;
  }
  static void read(const Reader& place, const Key& key, std::optional<T>& field) {
    if (key.or_empty && place.as_string().empty()) return;
    T value{};
    Value<T>::read(place, key, value);
    field = std::move(value);
  }
};

template <class T>
struct Value<std::vector<T>> {
  static constexpr void describe(Key& key) {
    ++key.lists;
    Value<T>::describe(key);
  }
  static void read(const Reader& place, const Key& key, std::vector<T>& field) {
    field.clear();
    for (const Reader& element : place.elements())
      Value<T>::read(element, key, field.emplace_back());
  }
};

}  // namespace cni
