#include "cnitool/validate/pools_check.h"

#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cnitool/json_at.h"
#include "cnitool/validate/chain_check.h"
#include "cnitool/validate/network_text.h"
#include "cnitool/validate/plugin_check.h"
#include "libcni/config/complaints.h"
#include "libcni/config/json.h"
#include "libcni/plugin/invoke.h"

namespace tool {

namespace {

using cni::cat;
using nlohmann::json;

constexpr const char* kAgent = "patchbay-agent";
constexpr std::chrono::seconds kAgentLimit{10};

// Empty: it is in none of the directories.
std::string find_agent(const std::string& path, const cni::Env& env) {
  std::string all = path;
  if (const auto more = env.find("PATH"); more != env.end()) all += cat(":", more->second);
  for (const std::string& dir : cni::split_path(all)) {
    std::string file = cat(dir, "/", kAgent);
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

// The place that a message of the parser begins with, and the rest of it.
std::pair<std::string, std::string> place_and_reason(const std::string& message) {
  const auto end = message.find(": ");
  const std::string place = message.substr(0, end);
  if (end == std::string::npos || place.find(' ') != std::string::npos || place == "config") {
    return {"", message};
  }
  return {place, message.substr(end + 2)};
}

// Adds the complaints of patchbay-agent. \return its answer.
json judged_by_agent(const Document& document, const std::string& file, const cni::Env& env,
                     Diagnostics& diagnostics) {
  const json& config = document.json.value;
  const cni::Outcome outcome =
      cni::execute({.file = file, .arguments = {"--validate"}, .env = env, .own_group = true},
                   config.dump(-1, ' ', false, json::error_handler_t::replace), kAgentLimit);
  json said = cni::try_parse_json(outcome.out);
  std::set<std::string> places;
  if (said.is_object() && said.contains("findings")) {
    for (const cni::Complaint& one : cni::complaints_in(said["findings"])) {
      places.insert(one.path);
      diagnostics.add(document, one.path, {.what = one.what, .suggestion = one.suggestion},
                      one.what == cni::kUnknownKey ? At::kKey : At::kValue);
    }
  }
  if (outcome.ok()) return said;
  const cni::Error refused = cni::error_from(kAgent, outcome);
  const auto [place, what] = place_and_reason(refused.what());
  if (!places.contains(place)) diagnostics.add(document, place, {.what = what});
  return said;
}

// The plugins of a pool, as a network. For the first one, `added` has the keys that patchbay-agent
// adds.
NetworkText network_of(Document& document, std::string first, const json& added) {
  constexpr std::string_view kFirst = "[0]";
  NetworkText out{.document = &document, .version_known = false, .has_runtime = false};
  if (!first.ends_with(kFirst)) return out;
  first.resize(first.size() - kFirst.size());
  for (std::size_t i = 0;; ++i) {
    const std::string path = cat(first, "[", i, "]");
    const json* const conf = document.json.at(path);
    if (conf == nullptr || !conf->is_object()) return out;
    out.plugins.push_back({.document = &document, .path = path, .type = text_at(*conf, "type")});
    if (i == 0) out.plugins.back().added = added;
  }
}

}  // namespace

bool is_pools(const Document& document) {
  const json& value = document.json.value;
  return value.is_object() && member(value, "pools") != nullptr &&
         member(value, "plugins") == nullptr && member(value, "type") == nullptr;
}

void check_pools(Document& document, const PoolsJudges& judges, Diagnostics& diagnostics) {
  const std::string file = find_agent(judges.path, judges.env);
  if (file.empty()) {
    diagnostics.add(document.file, {Severity::kNote, cat("a config of ", kAgent,
                                                         ", which is not installed: only "
                                                         "its JSON was checked")});
    return;
  }
  const json said = judged_by_agent(document, file, judges.env, diagnostics);
  const json* const added = said.is_object() ? member(said, "added") : nullptr;
  if (added == nullptr || !added->is_array()) return;
  for (const json& one : *added) {
    const json* const keys = one.is_object() ? member(one, "keys") : nullptr;
    if (keys == nullptr) continue;
    NetworkText network = network_of(document, text_at(one, "path"), *keys);
    check_plugins(network, judges.plugins, diagnostics);
    check_chain(network, judges.plugins, diagnostics);
  }
}

}  // namespace tool
