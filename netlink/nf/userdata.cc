#include "netlink/nf/userdata.h"

#include <cerrno>
#include <cstring>

#include "netlink/types/error.h"

namespace netlink::nf {

void append_text(Bytes& userdata, std::uint8_t type, std::string_view text) {
  if (text.size() > 253) throw Error(cat("set the comment '", text, "'"), EMSGSIZE);
  userdata.push_back(type);
  userdata.push_back(static_cast<std::uint8_t>(text.size() + 1));
  userdata.insert(userdata.end(), text.begin(), text.end());
  userdata.push_back(0);
}

void append_number(Bytes& userdata, std::uint8_t type, std::uint32_t number) {
  userdata.push_back(type);
  userdata.push_back(sizeof number);
  const std::size_t start = userdata.size();
  userdata.resize(start + sizeof number);
  std::memcpy(&userdata[start], &number, sizeof number);
}

Bytes comment_userdata(std::string_view comment) {
  Bytes out;
  append_text(out, kUserdataComment, comment);
  return out;
}

std::string text_in(View userdata, std::uint8_t type) {
  while (userdata.size() >= 2) {
    const std::size_t length = userdata[1];
    if (length + 2 > userdata.size()) break;
    const auto value = userdata.subspan(2, length);
    if (userdata[0] == type) {
      return {value.begin(), value.end() - (value.empty() || value.back() != 0 ? 0 : 1)};
    }
    userdata = userdata.subspan(2 + length);
  }
  return {};
}

}  // namespace netlink::nf
