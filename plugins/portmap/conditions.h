#pragma once

#include <string>

/// conditionsV4 and conditionsV6 in nft's language, which the program nft compiles.
namespace portmap {

/// The path of nft. \throws cni::Error(kPluginUnavailable) where the node has none.
std::string require_nft();

/// Runs commands in nft's language in one transaction, by `nft -f -`.
/// \throws cni::Error: kPluginUnavailable where the node has no nft, kInvalidConfig with its
/// message.
void run_nft(const std::string& commands);

}  // namespace portmap
