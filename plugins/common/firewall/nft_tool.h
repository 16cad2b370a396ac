#pragma once

#include <string>

/// The program nft, for what is written in its language.
namespace plugins {

/// Its path. \throws cni::Error(kPluginUnavailable) with the details if it is not installed.
std::string require_nft(const std::string& details);

/// Runs commands in one transaction, by `nft -f -`.
/// \throws as require_nft(); cni::Error(kInvalidConfig) with its message.
void run_nft(const std::string& commands, const std::string& details);

}  // namespace plugins
