// A network as `cnitool validate` looks at it, with the plugins of this repository in the same
// process. A text that has `"plugins"` in it is a list, another one is one plugin's config.
#include <list>
#include <nlohmann/json.hpp>

#include "cnitool/validate/chain_check.h"
#include "cnitool/validate/plugin_check.h"
#include "libcni/config/key_schema.h"
#include "libcni/runtime/conflist.h"
#include "plugins/list.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/plugin_conf.h"

namespace {

using namespace tool;
using fuzz::require;

PluginFacts facts_of(const cni::Plugin& plugin) {
  const std::string type(plugin.name);
  PluginFacts out{.file = type,
                  .versions = {},
                  .schema = nlohmann::json(cni::schema_of(type, *plugin.manual)),
                  .failure = {}};
  for (const auto version : cni::supported_versions()) out.versions.emplace_back(version);
  out.judge = [&plugin](const nlohmann::json& conf, const PluginUse&) -> Verdict {
    Verdict verdict{.complaints = cni::complaints(*plugin.manual, conf), .refusal = std::nullopt};
    try {
      if (const auto request = fuzz::request_in(conf.dump())) plugin.verbs.validate(*request);
    } catch (const cni::Error& e) {
      verdict.refusal = e;
    }
    return verdict;
  };
  return out;
}

Plugins& all_plugins() {
  static Plugins plugins([] {
    std::map<std::string, PluginFacts, std::less<>> out;
    for (const cni::Plugin* plugin : plugins::kAll) out.emplace(plugin->name, facts_of(*plugin));
    return out;
  }());
  return plugins;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Document document = Document::from("net.conflist", std::string(fuzz::text_of(data, size)));
  if (!document.json.readable) return 0;
  const bool clean = document.json.mistakes.empty();
  Diagnostics diagnostics;
  std::list<NetworkText> networks;
  networks.push_back(read_network(document, Form::kEither, diagnostics));
  require_plugins(networks.back(), diagnostics);
  check_plugins(networks.back(), all_plugins(), diagnostics);
  check_chain(networks.back(), all_plugins(), diagnostics);
  check_together(networks, diagnostics);
  diagnostics.sort({document.file});
  const auto lines = cni::position_in(document.text, document.text.size()).line;
  for (const Diagnostic& one : diagnostics.all()) {
    require(one.at.line <= lines, "a diagnostic is in the text");
    require(!one.remark.what.empty() && !one.str().empty(), "a diagnostic says what it is");
  }
  if (clean && diagnostics.count(Severity::kError) == 0 && member(document.json.value, "plugins")) {
    require(fuzz::accepts([&] { cni::list_from(document.text); }), "what is right is a list");
  }
  return 0;
}
