#pragma once

#include <string>
#include <string_view>

namespace cni {

/// The text with '?' for each control character but line breaks and tabs (C0, DEL and C1 of
/// ECMA-48), and for each byte that is no UTF-8 (RFC 3629). Root in a pod chooses names of links
/// and aliases: on a terminal, control sequences in them would clear the screen, hide lines or type
/// answers.
std::string printable_text(std::string_view text);

}  // namespace cni
