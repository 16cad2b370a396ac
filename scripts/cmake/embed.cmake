# cmake -DINPUT=FILE -DOUTPUT=FILE.cc -DNAMESPACE=A::B -P embed.cmake: a C++ source whose function
# A::B::object() gives the bytes of INPUT; none where INPUT is empty.
set(bytes)
if(INPUT)
  file(READ ${INPUT} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
endif()
file(WRITE ${OUTPUT} "#include <cstddef>
#include <span>

namespace ${NAMESPACE} {

std::span<const std::byte> object() noexcept;

std::span<const std::byte> object() noexcept {
  alignas(8) static constexpr unsigned char kBytes[] = {${bytes} 0};
  return std::as_bytes(std::span(kBytes, sizeof kBytes - 1));
}

}  // namespace ${NAMESPACE}
")
