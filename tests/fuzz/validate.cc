// A network as `cnitool validate` looks at it, with the plugins of this repository in the same
// process. A text that has `"plugins"` in it is a list, another one is one plugin's config.
#include <list>
#include <nlohmann/json.hpp>

#include "libcni/config/key_schema.h"
#include "libcni/runtime/conflist.h"
#include "libcni/tool/validate/chain_check.h"
#include "libcni/tool/validate/plugin_check.h"
#include "plugins/bandwidth/bandwidth.h"
#include "plugins/bandwidth/conf.h"
#include "plugins/bridge/bridge.h"
#include "plugins/bridge/conf.h"
#include "plugins/host-local/conf.h"
#include "plugins/host-local/host_local.h"
#include "plugins/loopback/loopback.h"
#include "plugins/portmap/conf.h"
#include "plugins/portmap/portmap.h"
#include "plugins/static/conf.h"
#include "plugins/static/static_ipam.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/plugin_conf.h"

namespace {

using namespace tool;
using fuzz::require;
using Validate = void (*)(const cni::Request&);

PluginFacts facts_of(const char* type, const cni::Manual& manual, Validate validate) {
  PluginFacts out{.file = type,
                  .versions = {},
                  .schema = nlohmann::json(cni::schema_of(type, manual)),
                  .failure = {}};
  for (const auto version : cni::supported_versions()) out.versions.emplace_back(version);
  out.judge = [validate, &manual](const nlohmann::json& conf) -> Verdict {
    Verdict verdict{.complaints = cni::complaints(manual, conf), .refusal = std::nullopt};
    try {
      if (const auto request = fuzz::request_in(conf.dump())) validate(*request);
    } catch (const cni::Error& e) {
      verdict.refusal = e;
    }
    return verdict;
  };
  return out;
}

Plugins& all_plugins() {
  static Plugins plugins(
      {{"bridge", facts_of("bridge", bridge::kManual, bridge::validate)},
       {"portmap", facts_of("portmap", portmap::kManual, portmap::validate)},
       {"bandwidth", facts_of("bandwidth", bandwidth::kManual, bandwidth::validate)},
       {"host-local", facts_of("host-local", host_local::kManual, host_local::validate)},
       {"static", facts_of("static", static_ipam::kManual, static_ipam::validate)},
       {"loopback", facts_of("loopback", loopback::kManual, loopback::validate)}});
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
