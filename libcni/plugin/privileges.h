#pragma once

#include <initializer_list>
#include <string_view>

#include "libcni/plugin/request.h"
#include "netlink/types/capability.h"

namespace cni {

/// Asked before anything is changed, so that what is refused is refused as a whole and in words.
/// \throws Error that names those of wanted that this process lacks: "run ADD: operation not
/// permitted: this process lacks CAP_NET_ADMIN"; 50 for STATUS, else 999.
void require_capabilities(const Request& request,
                          std::initializer_list<netlink::Capability> wanted);

/// The same where there is no request; what is "verb 'object'".
void require_capabilities(std::string_view what, std::initializer_list<netlink::Capability> wanted);

}  // namespace cni
