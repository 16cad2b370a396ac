#include "libcni/plugin/life.h"

#include <cstddef>

namespace cni {

std::string_view str(Life life) {
  constexpr std::string_view kWords[] = {"dead", "young", "unseen", "alive"};
  return kWords[static_cast<std::size_t>(life)];
}

Life life_by_age(std::time_t modified) {
  return std::time(nullptr) - modified < kLongestStart ? Life::kYoung : Life::kDead;
}

}  // namespace cni
