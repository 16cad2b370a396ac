#include "plugins/devices/agent/dra/judge.h"

#include <unistd.h>

#include <chrono>

#include "libcni/common/error.h"
#include "libcni/config/complaints.h"
#include "libcni/config/json.h"
#include "libcni/plugin/invoke.h"

namespace devices::dra {

namespace {

using cni::cat;

constexpr std::chrono::seconds kLimit{5};

// Empty: it has nothing against the config, or its executable cannot be asked.
std::string words_of(const std::string& type, const nlohmann::ordered_json& conf,
                     const std::string& folder) {
  const std::string file = cat(folder, "/", type);
  if (!cni::is_plugin_name(type) || ::access(file.c_str(), X_OK) != 0) return {};
  const cni::Executable program{.file = file,
                                .arguments = {"--validate"},
                                .env = {{"CNI_COMMAND", "VERSION"}, {"CNI_PATH", folder}},
                                .own_group = true};
  const cni::Outcome outcome = cni::execute(program, conf.dump(), kLimit);
  const nlohmann::json said = cni::try_parse_json(outcome.out);
  if (!said.is_object()) return {};  // another project's plugin
  if (!outcome.ok() && said.contains("code")) return cni::error_from(type, outcome).what();
  if (!said.contains("findings")) return {};
  const auto complaints = cni::complaints_in(said["findings"]);
  return complaints.empty() ? std::string() : complaints.front().str();
}

// Chained plugins demand one.
nlohmann::ordered_json earlier_result() {
  return {{"cniVersion", "1.1.0"},
          {"interfaces", {{{"name", "net1"}, {"sandbox", "/run/netns/pod"}}}},
          {"ips", {{{"address", "192.0.2.2/24"}, {"interface", 0}}}}};
}

}  // namespace

void require_accepted(const nlohmann::ordered_json& plugins, const std::string& folder) {
  for (std::size_t i = 0; i < plugins.size(); ++i) {
    nlohmann::ordered_json conf = plugins[i];
    const auto type = conf["type"].get<std::string>();
    conf["cniVersion"] = "1.1.0";
    conf["name"] = "devices";
    if (i > 0) conf["prevResult"] = earlier_result();
    const std::string words = words_of(type, conf, folder);
    if (words.empty()) continue;
    throw cni::Error(cni::Code::kInvalidConfig,
                     cat("plugins[", i, "]: plugin ", type, " refuses it: ", words));
  }
}

}  // namespace devices::dra
