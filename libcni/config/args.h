#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "libcni/config/key.h"

namespace cni {

using Args = std::map<std::string, std::string, std::less<>>;

/// CNI_ARGS ("K=V;K2=V2"), split. Only keys in known are returned; keys are case-sensitive.
/// An unknown key is an error unless IgnoreUnknown is true (1, true, any case), as in the
/// reference. \throws Error(kInvalidEnvironment) naming the pair.
Args parse_args(std::string_view text, std::initializer_list<std::string_view> known);
Args parse_args(std::string_view text, KeyList known);

}  // namespace cni
