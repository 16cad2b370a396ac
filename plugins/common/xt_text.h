#pragma once

#include <string>
#include <string_view>

#include "netlink/nf/batch.h"

/// The words of iptables: as its restore takes them and its save gives them.
namespace plugins::xt {

/// One word of iptables-restore's input.
std::string in_quotes(std::string_view text);

/// "0x2000/0x2000".
std::string mark_text(std::uint32_t value, std::uint32_t mask);

/// A rule's matches and target in the order and the words of iptables-save, except that comments
/// are always quoted: "-s 10.1.0.0/16 -p tcp -m tcp --dport 80 -j ACCEPT". It does not matter
/// whether iptables wrote a part natively or as an extension of its own, which differs between its
/// releases. Only what the plugins write has words; anything else is "?NAME", so that the text
/// equals no rule of theirs.
std::string text_of(const netlink::nf::Rule& rule);

}  // namespace plugins::xt
