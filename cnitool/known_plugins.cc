#include "cnitool/known_plugins.h"

#include <algorithm>

#include "libcni/config/names.h"
#include "plugins/facts.h"

namespace tool {

cni::Facts facts_of(std::string_view type) noexcept {
  const auto is_it = [type](const auto& one) { return cni::stands_for(type, one.type); };
  const auto found = std::ranges::find_if(plugins::kFacts, is_it);
  return found == plugins::kFacts.end() ? cni::Facts() : found->facts;
}

std::string_view type_with(cni::Fact fact) noexcept {
  const auto has = [fact](const auto& one) { return one.facts.has(fact); };
  const auto found = std::ranges::find_if(plugins::kFacts, has);
  return found == plugins::kFacts.end() ? std::string_view() : found->type;
}

}  // namespace tool
