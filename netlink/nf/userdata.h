#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "netlink/nf/nfnetlink.h"

/// User data that nf_tables keeps with every object: entries of a type, a length and a value, a
/// byte each for the first two (libnftnl/udata.h).
namespace netlink::nf {

/// The type of the comment of a table, a chain, a rule or an element; sets have another.
inline constexpr std::uint8_t kUserdataComment = 0;

/// Appends text with its NUL. \throws Error(EMSGSIZE) above 253 bytes, which the kernel's 256
/// (NFT_USERDATA_MAXLEN) have no room for.
void append_text(Bytes& userdata, std::uint8_t type, std::string_view text);
/// Appends a number in the byte order of this machine, as libnftnl does.
void append_number(Bytes& userdata, std::uint8_t type, std::uint32_t number);

/// The comment alone as userdata.
Bytes comment_userdata(std::string_view comment);

/// The text of the first entry of that type, without its NUL; empty where there is none.
std::string text_in(View userdata, std::uint8_t type);

}  // namespace netlink::nf
