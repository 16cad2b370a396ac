#pragma once

#include <optional>

#include "libcni/runtime/conflist.h"

namespace tool {

/// What the plugin flannel delegates to, with the config that it makes: of the node's subnet.env as
/// far as that exists. Empty: the plugin is another one, or its config is wrong, which STATUS says.
std::optional<cni::PluginConf> delegate_of(const cni::PluginConf& plugin);

/// The same, or the plugin itself.
cni::PluginConf effective(const cni::PluginConf& plugin);

}  // namespace tool
