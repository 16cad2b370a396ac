#pragma once

#include <optional>
#include <string>

#include "netlink/nf/expr.h"
#include "netlink/types/ip.h"

namespace plugins::xt {

/// A match or target of a family's iptables in iptables-save's words: "-m multiport --dports
/// 80,81",
/// "-j MARK --set-xmark 0x2000/0x2000". Nothing for one that no plugin writes, or in an unusual
/// form.
std::optional<std::string> extension_text(const netlink::nf::Xt& extension, netlink::Family family);

}  // namespace plugins::xt
