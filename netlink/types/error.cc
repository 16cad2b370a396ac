#include "netlink/types/error.h"

#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>

#include "netlink/types/hints.h"

namespace netlink {

std::string errno_text(int error) {
  std::string text = std::strerror(error);
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])) != 0) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  return text;
}

Error::Error(std::string operation, int error, std::string kernel_text)
    : std::system_error(error, std::generic_category()),
      operation_(std::move(operation)),
      kernel_text_(std::move(kernel_text)),
      text_(cat(operation_, ": ", errno_text(error))) {
  if (!kernel_text_.empty()) text_ += cat(" (kernel: ", kernel_text_, ")");
  if (const auto limit = limit_hint(error); !limit.empty()) text_ += cat(" (", limit, ")");
}

}  // namespace netlink
