#pragma once

#include <string>
#include <string_view>

namespace netlink::bpf {

/// The last lines of a verifier's log that say why, without its statistics; joined by "; ".
std::string last_words(std::string_view log);

}  // namespace netlink::bpf
