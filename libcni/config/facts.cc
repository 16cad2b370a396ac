#include "libcni/config/facts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace cni {

namespace {

constexpr std::string_view kWords[] = {"interface",    "chained", "loopback", "ipam",   "ranges",
                                       "addresses",    "server",  "bridge",   "routed", "master",
                                       "delegates",    "ports",   "rates",    "policy", "settings",
                                       "sourceRoutes", "vrf",     "devices",  "keeps"};
static_assert(std::size(kWords) == static_cast<std::size_t>(Fact::kKeeps) + 1);

}  // namespace

void add_facts(Facts facts, nlohmann::ordered_json& schema) {
  auto words = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < std::size(kWords); ++i) {
    if (facts.has(static_cast<Fact>(i))) words.push_back(kWords[i]);
  }
  schema["facts"] = std::move(words);
  if (facts.link_kind() != nullptr) schema["linkKind"] = facts.link_kind();
}

std::optional<Facts> facts_in(const nlohmann::json& schema) {
  if (!schema.is_object()) return std::nullopt;
  const auto words = schema.find("facts");
  if (words == schema.end() || !words->is_array()) return std::nullopt;
  Facts out;
  for (std::size_t i = 0; i < std::size(kWords); ++i) {
    const auto is_said = [word = kWords[i]](const nlohmann::json& one) { return one == word; };
    if (std::ranges::any_of(*words, is_said)) out.add(static_cast<Fact>(i));
  }
  return out;
}

}  // namespace cni
