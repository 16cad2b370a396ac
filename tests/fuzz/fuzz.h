#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

/// What the targets share. A target is LLVMFuzzerTestOneInput(): a crash, a sanitizer's report, an
/// exception that leaves it, or a property that does not hold is a finding.
namespace fuzz {

/// Ends the process, saying which property does not hold.
void require(bool holds, std::string_view property);

std::string_view text_of(const std::uint8_t* data, std::size_t size);

/// Whether fn takes its input. It may refuse it by a cni::Error with a message; any other exception
/// goes on its way, and is a finding.
bool accepts(const std::function<void()>& fn);

/// Up to the first separator, which is passed over; all of it where there is none.
std::string_view take_until(std::string_view& text, std::string_view separator);

/// The input as bytes that are aligned as a receive buffer is.
class Datagram {
 public:
  Datagram(const std::uint8_t* data, std::size_t size);
  std::span<const std::uint8_t> bytes() const { return {bytes_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::uint8_t* bytes) const noexcept;
  };
  std::unique_ptr<std::uint8_t, Free> bytes_;
  std::size_t size_;
};

}  // namespace fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
