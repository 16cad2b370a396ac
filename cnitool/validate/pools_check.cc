#include "cnitool/validate/pools_check.h"

#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cnitool/json_at.h"
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

}  // namespace

bool is_pools(const Document& document) {
  const json& value = document.json.value;
  return value.is_object() && member(value, "pools") != nullptr &&
         member(value, "plugins") == nullptr && member(value, "type") == nullptr;
}

void check_pools(const Document& document, const std::string& path, const cni::Env& env,
                 Diagnostics& diagnostics) {
  const std::string file = find_agent(path, env);
  if (file.empty()) {
    diagnostics.add(document.file, {Severity::kNote, cat("a config of ", kAgent,
                                                         ", which is not installed: only "
                                                         "its JSON was checked")});
    return;
  }
  const json& config = document.json.value;
  const cni::Outcome outcome =
      cni::execute({.file = file, .arguments = {"--validate"}, .env = env, .own_group = true},
                   config.dump(-1, ' ', false, json::error_handler_t::replace), kAgentLimit);
  const json said = cni::try_parse_json(outcome.out);
  std::set<std::string> places;
  if (said.is_object() && said.contains("findings")) {
    for (const cni::Complaint& one : cni::complaints_in(said["findings"])) {
      places.insert(one.path);
      diagnostics.add(document, one.path, {.what = one.what, .suggestion = one.suggestion},
                      one.what == cni::kUnknownKey ? At::kKey : At::kValue);
    }
  }
  if (outcome.ok()) return;
  const cni::Error refused = cni::error_from(kAgent, outcome);
  const auto [place, what] = place_and_reason(refused.what());
  if (!places.contains(place)) diagnostics.add(document, place, {.what = what});
}

}  // namespace tool
