#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "netlink/types/fd.h"

/// Programs and maps that are loaded already, by any process.
namespace netlink::bpf {

/// A map of a loaded program.
struct LoadedMap {
  Fd fd;
  std::string name;  ///< cut to 15 bytes by the kernel
  std::uint32_t type = 0, key_size = 0, value_size = 0, max_entries = 0;
};

/// The maps of the program with this number, as a filter shows it; nothing where the program is
/// gone. Needs CAP_SYS_ADMIN. \throws Error
std::optional<std::vector<LoadedMap>> maps_of(std::uint32_t program_id);

/// The bytes of one element of an array. \throws Error
std::vector<std::byte> element(const LoadedMap& array, std::uint32_t index);

/// The same as a struct; nothing where the map's values are of another size.
template <class T>
std::optional<T> element_as(const LoadedMap& array, std::uint32_t index) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (array.key_size != sizeof index || array.value_size != sizeof(T)) return std::nullopt;
  T out;
  std::memcpy(&out, element(array, index).data(), sizeof out);
  return out;
}

}  // namespace netlink::bpf
