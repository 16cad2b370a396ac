#include "cnitool/list_runtimes.h"

#include <cctype>
#include <nlohmann/json.hpp>

#include "cnitool/runtimes.h"
#include "cnitool/settings.h"
#include "libcni/common/undo.h"

namespace tool {

namespace {

using nlohmann::ordered_json;

// "crio" of "CRI-O".
std::string key_of(const std::string& name) {
  std::string out;
  for (const char c : name) {
    if (c != '-') out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

ordered_json json_of(const RuntimeConfig& one) {
  ordered_json out{{"runtime", one.name},
                   {"running", one.started != 0},
                   {"pluginDirs", one.bin_dirs},
                   {"pluginDir", one.plugin_dir()},
                   {"networkDir", one.conf_dir},
                   {"config", one.file.empty() ? ordered_json() : ordered_json(one.file)}};
  if (!one.failure.empty()) out["failure"] = one.failure;
  return out;
}

void print(const std::vector<RuntimeConfig>& all, const Output& output) {
  if (output.json) {
    ordered_json out{{"runtimes", ordered_json::array()}};
    for (const RuntimeConfig& one : all) out["runtimes"].push_back(json_of(one));
    return output.print(out);
  }
  std::vector<std::vector<Cell>> table{{}};
  for (const char* heading : {"RUNTIME", "STATE", "PLUGINS", "NETWORKS", "CONFIG"}) {
    table[0].push_back({heading, Colour::kBold});
  }
  for (const RuntimeConfig& one : all) {
    table.push_back({{one.name},
                     {one.started == 0 ? "installed" : "running"},
                     {joined(one.bin_dirs, ",")},
                     {one.conf_dir},
                     {one.file.empty() ? "defaults" : one.file}});
    if (!one.failure.empty()) cni::note(cat(one.name, ": ", one.failure));
  }
  print_table(output, table);
}

std::string plugin_dir_of(const std::vector<RuntimeConfig>& all) {
  if (all.empty()) {
    const std::string out = default_plugin_dir();
    cni::note(cat("no container runtime was found: by default they look in ", out));
    return out;
  }
  const RuntimeConfig& one = all.front();
  if (one.failure.empty()) return one.plugin_dir();
  throw cni::Error(cni::Code::kInvalidConfig, one.failure,
                   cat(one.name, " looks for plugins where this config says"));
}

}  // namespace

void list_runtimes(const RuntimesAsked& asked, const Output& output) {
  auto all = runtimes_of_node();
  std::erase_if(all, [](const auto& one) { return one.lacks_cri; });
  if (!asked.name.empty()) {
    std::erase_if(all, [&](const auto& one) { return key_of(one.name) != key_of(asked.name); });
    if (all.empty()) {
      throw cni::Error(cni::Code::kInvalidConfig,
                       cat("runtime '", asked.name, "' is not installed here"),
                       "`cnitool runtimes` prints those that are");
    }
  }
  if (!asked.plugin_dir) return print(all, output);
  output.out << plugin_dir_of(all) << '\n';
}

}  // namespace tool
