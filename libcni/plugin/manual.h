#pragma once

#include <span>
#include <string>

#include "libcni/plugin/plugin.h"

/// Texts and schemas made from a plugin's Manual, for persons and for programs.
namespace cni {

/// "CNI bridge plugin v1.9.1+patchbay.0.2.0", and the versions of the spec: two lines, for a call
/// without a verb. Nomad takes the first word that is a version, nerdctl what follows "plugin ",
/// and both compare it with releases of the reference plugins. Of a plugin of another project:
/// "CNI wire plugin v1.2.0".
std::string about(const Plugin& plugin);
/// "CNI bridge plugin patchbay 0.2.0 (commit 0123456789ab)", and the versions of the spec: the text
/// for --version. Of a plugin of another project: "CNI wire plugin v1.2.0", and the version of
/// libcni in a line of its own.
std::string version_text(const Plugin& plugin);
/// The text for --help.
std::string help(const Plugin& plugin);
/// The keys as a Markdown table, which the plugin's README contains.
std::string key_table(const Manual& manual);

/// The text that an option asks for.
/// \throws std::invalid_argument for an unknown option, or where the plugin has no Manual.
std::string answer_to(const Plugin& plugin, std::string_view option);

}  // namespace cni
