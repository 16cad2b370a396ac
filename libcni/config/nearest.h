#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cni {

/// The word that text may be a slip of the pen for; empty where none is near. Case does not count.
std::string nearest(std::string_view text, const std::vector<std::string>& words);

/// The text in lower case (ASCII).
std::string lower(std::string_view text);

/// lower(a) == lower(b), without copies: each look-up of a key of a config compares.
bool same_but_for_case(std::string_view a, std::string_view b);

}  // namespace cni
