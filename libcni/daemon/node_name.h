#pragma once

#include <string>

namespace cni {

/// NODE_NAME of the environment, else the name of the host in lower case.
std::string node_name();

}  // namespace cni
