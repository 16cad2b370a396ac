#pragma once

#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace netlink {

/// Joins its arguments to one string; the standard library here has no <format>.
template <class... Part>
std::string cat(const Part&... part) {
  std::string out;
  const auto one = [&out](const auto& p) {
    using P = std::decay_t<decltype(p)>;
    if constexpr (std::is_arithmetic_v<P> && !std::is_same_v<P, char>) {
      out += std::to_string(p);
    } else {
      out += p;
    }
  };
  (one(part), ...);
  return out;
}

/// The system's text for an errno value with a lower-case first letter ("no such device").
std::string errno_text(int error);

/// A refusal by the kernel: what was tried, the errno value, and the kernel's own sentence if it
/// gave one (NETLINK_EXT_ACK). what() reads "verb 'object': cause (kernel: sentence)".
class Error : public std::system_error {
 public:
  /// operation is "verb 'object'", lower case; error a positive errno value.
  Error(std::string operation, int error, std::string kernel_text = {});

  const char* what() const noexcept override { return text_.c_str(); }
  /// what() without the kernel's sentence.
  std::string sentence() const { return cat(operation_, ": ", errno_text(error())); }
  int error() const noexcept { return code().value(); }
  const std::string& operation() const noexcept { return operation_; }
  const std::string& kernel_text() const noexcept { return kernel_text_; }

 private:
  std::string operation_, kernel_text_, text_;
};

}  // namespace netlink
