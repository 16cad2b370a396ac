#pragma once

#include <string>
#include <string_view>

#include "libcni/plugin/request.h"

/// conditionsV4 and conditionsV6 in nft's language, for which there is libnftables. A static
/// executable cannot load it: that one is linked with conditions_elsewhere.cc, and has a dynamic
/// one beside it that is linked with conditions_loaded.cc.
namespace portmap {

/// The executable to take the call, where it needs libnftables and this one cannot load it.
std::string_view elsewhere(const cni::Request& request);

/// Runs commands in nft's language in one transaction by way of libnftables.so.1, which is loaded
/// for this alone: conditionsV4 and conditionsV6 are arbitrary text in that language.
/// \throws cni::Error: kPluginUnavailable where the library is not on the node, kInvalidConfig with
/// what it said.
void run_nft(const std::string& commands);

}  // namespace portmap
