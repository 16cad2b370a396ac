#pragma once

#include <string>

#include "plugins/flannel/conf.h"

namespace flannel {

/// The config for the delegate: `delegate` and `ipam` of ours, completed from subnet.env, which is
/// also the content of the state file. What env does not have is left out, for DEL.
/// \throws cni::Error(kInvalidConfig) where `delegate` or `ipam` cannot be completed.
std::string delegate_config(const cni::Request& request, const Conf& conf,
                            const cni::SubnetEnv& env);

/// The same for another verb than ADD and DEL, from the config that ADD gave the delegate: with
/// what the runtime says in our config (prevResult, the valid attachments), in our cniVersion.
std::string with_call(const std::string& config, const cni::Request& request);

/// `type` of the delegate's config.
std::string type_in(const std::string& config);

}  // namespace flannel
