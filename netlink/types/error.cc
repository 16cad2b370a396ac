#include "netlink/types/error.h"

#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>

namespace netlink {

namespace {

// glibc's words, which ip, nft and most logs have, where musl's are others; none where they are the same,
// or nothing that the kernel says here.
const char* words_of(int error) {
  switch (error) {
    case EIO:
      return "Input/output error";
    case ENOMEM:
      return "Cannot allocate memory";
    case EBUSY:
      return "Device or resource busy";
    case EXDEV:
      return "Invalid cross-device link";
    case EMFILE:
      return "Too many open files";
    case ENOTTY:
      return "Inappropriate ioctl for device";
    case ERANGE:
      return "Numerical result out of range";
    case ENAMETOOLONG:
      return "File name too long";
    case ELOOP:
      return "Too many levels of symbolic links";
    case ENOTUNIQ:
      return "Name not unique on network";
    case EOVERFLOW:
      return "Value too large for defined data type";
    case EUSERS:
      return "Too many users";
    case ENOTSOCK:
      return "Socket operation on non-socket";
    case EMSGSIZE:
      return "Message too long";
    case EOPNOTSUPP:
      return "Operation not supported";
    case EADDRINUSE:
      return "Address already in use";
    case EADDRNOTAVAIL:
      return "Cannot assign requested address";
    case ENETUNREACH:
      return "Network is unreachable";
    case ENETRESET:
      return "Network dropped connection on reset";
    case ECONNABORTED:
      return "Software caused connection abort";
    case EISCONN:
      return "Transport endpoint is already connected";
    case ENOTCONN:
      return "Transport endpoint is not connected";
    case ESHUTDOWN:
      return "Cannot send after transport endpoint shutdown";
    case ETIMEDOUT:
      return "Connection timed out";
    case EHOSTUNREACH:
      return "No route to host";
    case EINPROGRESS:
      return "Operation now in progress";
    case EUCLEAN:
      return "Structure needs cleaning";
    case EDQUOT:
      return "Disk quota exceeded";
    case ERFKILL:
      return "Operation not possible due to RF-kill";
    default:
      return nullptr;
  }
}

}  // namespace

std::string errno_text(int error) {
  const char* words = words_of(error);
  std::string text = words != nullptr ? words : std::strerror(error);
  if (text == "No error information") text = cat("error ", error);  // musl, of what it does not know
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
}

}  // namespace netlink
