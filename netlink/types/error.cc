#include "netlink/types/error.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "netlink/types/hints.h"

namespace netlink {

namespace {

// glibc's words, which ip, nft and most logs have, where musl's are others; none where they are the
// same, or nothing that the kernel says here.
struct Words {
  int error;
  std::string_view text;
};

constexpr Words kWords[] = {
    {EIO, "Input/output error"},
    {ENOMEM, "Cannot allocate memory"},
    {EBUSY, "Device or resource busy"},
    {EXDEV, "Invalid cross-device link"},
    {EMFILE, "Too many open files"},
    {ENOTTY, "Inappropriate ioctl for device"},
    {ERANGE, "Numerical result out of range"},
    {ENAMETOOLONG, "File name too long"},
    {ELOOP, "Too many levels of symbolic links"},
    {ENOTUNIQ, "Name not unique on network"},
    {EOVERFLOW, "Value too large for defined data type"},
    {EUSERS, "Too many users"},
    {ENOTSOCK, "Socket operation on non-socket"},
    {EMSGSIZE, "Message too long"},
    {EOPNOTSUPP, "Operation not supported"},
    {EADDRINUSE, "Address already in use"},
    {EADDRNOTAVAIL, "Cannot assign requested address"},
    {ENETUNREACH, "Network is unreachable"},
    {ENETRESET, "Network dropped connection on reset"},
    {ECONNABORTED, "Software caused connection abort"},
    {EISCONN, "Transport endpoint is already connected"},
    {ENOTCONN, "Transport endpoint is not connected"},
    {ESHUTDOWN, "Cannot send after transport endpoint shutdown"},
    {ETIMEDOUT, "Connection timed out"},
    {EHOSTUNREACH, "No route to host"},
    {EINPROGRESS, "Operation now in progress"},
    {EUCLEAN, "Structure needs cleaning"},
    {EDQUOT, "Disk quota exceeded"},
    {ERFKILL, "Operation not possible due to RF-kill"},
};

std::string words_of(int error) {
  const auto* known = std::find_if(std::begin(kWords), std::end(kWords),
                                   [error](const Words& one) { return one.error == error; });
  if (known != std::end(kWords)) return std::string(known->text);
  std::string text = std::strerror(error);
  if (text == "No error information") text = cat("error ", error);  // musl
  return text;
}

}  // namespace

std::string errno_text(int error) {
  std::string text = words_of(error);
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
