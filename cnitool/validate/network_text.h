#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cnitool/json_at.h"
#include "cnitool/validate/diagnostics.h"
#include "libcni/config/facts.h"
#include "libcni/config/json_value.h"

namespace tool {

/// One plugin of a network, as it was written.
struct PluginText {
  Document* document;
  std::string path;            ///< of its object in the document; empty for a file of one plugin
  std::string type;            ///< empty: it has none that could be used
  cni::JsonValue added = {};   ///< keys that its caller adds to the config; null: none
  cni::Facts facts = {};       ///< see check_plugins()
  cni::Facts ipam_facts = {};  ///< of the plugin that "ipam" names

  const nlohmann::json& conf() const { return *document->json.at(path); }
  /// The place of one of its keys.
  std::string at(const std::string& key) const;
  /// Whether it asks the runtime for a capability.
  bool declares(const char* capability) const;
};

/// Adds a warning about one of its keys.
void warn(const PluginText& plugin, const std::string& key, const std::string& what,
          Diagnostics& diagnostics);

/// A network, as far as it can be read.
struct NetworkText {
  Document* document;
  std::string name = {};
  std::string version = {};  ///< in which the plugins are called; "" is 0.1.0
  bool version_known = true;
  bool has_runtime =
      true;  ///< false: what calls the plugins makes no runtimeConfig of capabilities
  std::vector<PluginText> plugins = {};
};

/// The form of a file. The runtime goes by the name: a list is a *.conflist.
enum class Form { kList, kPlugin, kEither };
Form form_of(const std::string& file);

/// Reads the network of a document that is JSON, and says all that is wrong with it before a plugin
/// is asked: what the spec (1.1, section 1) demands of a list, or of a single plugin's config.
///
/// A required key that is misspelt is named, and respelled in the document, so that the rest can be
/// looked at.
NetworkText read_network(Document& document, Form form, Diagnostics& diagnostics);

/// The directory whose *.conf are further plugins of a list, unless it says loadOnlyInlinedPlugins;
/// empty where there can be none. \param beside the directory of the list's file.
std::string more_plugins_dir(const NetworkText& network, const std::string& beside);

/// A plugin from a file of more_plugins_dir().
void add_plugin(Document& document, NetworkText& network, Diagnostics& diagnostics);

/// Complains where a list has come to its end without a plugin.
void require_plugins(const NetworkText& network, Diagnostics& diagnostics);

}  // namespace tool
