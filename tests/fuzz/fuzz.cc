#include "tests/fuzz/fuzz.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "libcni/common/error.h"

namespace fuzz {

void require(bool holds, std::string_view property) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %.*s\n", static_cast<int>(property.size()), property.data());
  std::abort();
}

std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

bool accepts(const std::function<void()>& fn) {
  try {
    fn();
    return true;
  } catch (const cni::Error& e) {
    require(*e.what() != '\0', "an error says what is wrong");
    return false;
  }
}

std::string_view take_until(std::string_view& text, std::string_view separator) {
  const auto at = text.find(separator);
  const std::string_view out = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + separator.size());
  return out;
}

// Exactly as long as the input, so that the byte behind it is out of bounds.
Datagram::Datagram(const std::uint8_t* data, std::size_t size)
    : bytes_(static_cast<std::uint8_t*>(std::malloc(std::max<std::size_t>(size, 1)))), size_(size) {
  if (!bytes_) throw std::bad_alloc();
  if (size != 0) std::memcpy(bytes_.get(), data, size);
}

void Datagram::Free::operator()(std::uint8_t* bytes) const noexcept { std::free(bytes); }

}  // namespace fuzz
