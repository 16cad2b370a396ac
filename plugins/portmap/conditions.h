#pragma once

#include <string>

namespace portmap {

/// Runs commands in nft's language in one transaction by way of libnftables.so.1, which is loaded
/// for this alone: conditionsV4 and conditionsV6 are arbitrary text in that language.
/// \throws cni::Error: kPluginUnavailable where the library is not on the node, kInvalidConfig with
/// what it said.
void run_nft(const std::string& commands);

}  // namespace portmap
