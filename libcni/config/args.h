#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libcni/config/key.h"

namespace cni {

/// CNI_ARGS: keys with values, in order.
using Args = std::vector<std::pair<std::string, std::string>>;

/// "K=V;K2=V2".
std::string joined(const Args& args);

/// The parts of CNI_ARGS between semicolons, whether they are pairs or not.
std::vector<std::string_view> parts_of_args(std::string_view text);

/// The value of a key in CNI_ARGS, which need not be well-formed; empty without one.
std::string_view value_in_args(std::string_view text, std::string_view key);

/// The values of CNI_ARGS whose keys are in known; keys are case-sensitive. An unknown key is an
/// error unless IgnoreUnknown is true (1, true, any case), as in the reference plugins.
/// \throws Error(kInvalidEnvironment) naming the pair.
std::map<std::string, std::string, std::less<>> parse_args(std::string_view text, KeyList known);

}  // namespace cni
