#pragma once

#include <algorithm>
#include <array>
#include <concepts>

#include "libcni/config/key_values.h"

/// Tables of the keys of a config. A plugin has one: it parses the config, and --help, --schema and
/// the table in the README are made from it (libcni/plugin/manual.h). It is constant data, which
/// costs the start of a process its relocation alone:
///
///   constexpr auto kKeys = cni::keys(
///       cni::key<&Conf::bridge>({.name = "bridge", .description = "name of the bridge"}),
///       cni::custom<read_vlan>({.name = "vlan", .type = cni::Type::kInteger, .maximum = 4094}));
namespace cni {

/// A key that fills a Conf.
template <class Conf>
struct KeyOf {
  Key key;
};

/// The keys of an object that fills a Conf.
template <class Conf, std::size_t N>
struct KeysOf {
  std::array<Key, N> list;
  constexpr operator KeyList() const { return {list.data(), N}; }
};

template <class Conf, std::same_as<KeyOf<Conf>>... More>
constexpr KeysOf<Conf, 1 + sizeof...(More)> keys(KeyOf<Conf> first, More... more) {
  return {{first.key, more.key...}};
}

/// Reads the keys of an object in the order of the table; an absent key leaves conf as it is. Keys
/// that are not in the table are passed over.
/// \throws Error for the first that is wrong, or is required and missing.
void read_key_list(const Reader& place, KeyList keys, void* conf);
template <class Conf, std::size_t N>
void read_keys(const Reader& place, const KeysOf<Conf, N>& keys, Conf& conf) {
  read_key_list(place, keys, &conf);
}

/// The type of the member that a pointer or a reading function is for.
template <class Pointer>
struct About;
template <class Class, class Field>
struct About<Field Class::*> {
  using Conf = Class;
};
template <class Class>
struct About<void (*)(const Reader&, Class&)> {
  using Conf = Class;
};
template <auto First>
using ConfOf = typename About<decltype(First)>::Conf;

/// The field at the end of a path: &Conf::mtu, or &Conf::options, &Options::snat.
template <auto First, auto... Rest>
auto& field_of(void* conf) {
  auto& start = static_cast<ConfOf<First>*>(conf)->*First;
  return (start.*....*Rest);
}

/// A key that fills a field.
template <auto First, auto... Rest>
constexpr KeyOf<ConfOf<First>> key(Key key) {
  using Field = std::remove_reference_t<decltype(field_of<First, Rest...>(nullptr))>;
  Value<Field>::describe(key);
  key.read = [](const Reader& place, const Key& of, void* conf) {
    Value<Field>::read(place, of, field_of<First, Rest...>(conf));
  };
  return {key};
}

/// A key of a text that Key::fits judges, where Key::or_empty says so but for an empty one.
template <auto First, auto... Rest>
constexpr KeyOf<ConfOf<First>> text(Key key) {
  key.read = [](const Reader& place, const Key& of, void* conf) {
    read_text(place, of, field_of<First, Rest...>(conf));
  };
  return {key};
}

/// A key that a function reads: void(const Reader& place, Conf& conf). The table says the type.
template <auto Function>
constexpr KeyOf<ConfOf<Function>> custom(Key key) {
  key.read = [](const Reader& place, const Key&, void* conf) {
    Function(place, *static_cast<ConfOf<Function>*>(conf));
  };
  return {key};
}

template <class C, std::size_t N>
struct About<KeysOf<C, N>> {
  using Conf = C;
};
/// An object whose keys fill the same Conf.
template <const auto& kKeys>
constexpr auto part(Key key) {
  key.type = Type::kObject;
  key.keys = kKeys;
  key.read = [](const Reader& place, const Key&, void* conf) { read_key_list(place, kKeys, conf); };
  return KeyOf<typename About<std::remove_cvref_t<decltype(kKeys)>>::Conf>{key};
}

/// An object whose keys fill a field.
template <const auto& kKeys, auto First, auto... Rest>
constexpr KeyOf<ConfOf<First>> part(Key key) {
  key.type = Type::kObject;
  key.keys = kKeys;
  key.read = [](const Reader& place, const Key&, void* conf) {
    read_keys(place, kKeys, field_of<First, Rest...>(conf));
  };
  return {key};
}

/// A list of objects, each of which fills an element of a field.
template <const auto& kKeys, auto First, auto... Rest>
constexpr KeyOf<ConfOf<First>> list(Key key) {
  key.type = Type::kObject;
  key.lists = 1;
  key.keys = kKeys;
  key.read = [](const Reader& place, const Key&, void* conf) {
    auto& field = field_of<First, Rest...>(conf);
    field.clear();
    for (const Reader& element : place.elements()) {
      read_keys(element, kKeys, field.emplace_back());
    }
  };
  return {key};
}

/// A key that is described here and read elsewhere.
template <class Conf>
constexpr KeyOf<Conf> described(Key key) {
  return {key};
}

/// The keys of several tables that are read from one object, for a Manual: each is read by its own.
template <class... Conf, std::size_t... N>
constexpr KeysOf<void, (N + ...)> joined(const KeysOf<Conf, N>&... tables) {
  KeysOf<void, (N + ...)> out{};
  auto at = out.list.begin();
  ((at = std::ranges::copy(tables.list, at).out), ...);
  return out;
}

}  // namespace cni
