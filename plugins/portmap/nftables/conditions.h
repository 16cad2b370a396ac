#pragma once

#include <string>

/// conditionsV4 and conditionsV6 in nft syntax, which nft(8) compiles.
namespace portmap {

/// The path of nft. \throws cni::Error(kPluginUnavailable) if nft is not installed.
std::string require_nft();

/// Runs commands in one transaction, by `nft -f -`.
/// \throws cni::Error: kPluginUnavailable if nft is not installed, kInvalidConfig with its message.
void run_nft(const std::string& commands);

}  // namespace portmap
