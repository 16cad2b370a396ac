#include "cnitool/validate/network_text.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "libcni/common/version.h"
#include "libcni/config/complaints.h"
#include "libcni/config/conf.h"
#include "libcni/config/names.h"
#include "libcni/config/nearest.h"

namespace tool {

namespace {

using nlohmann::json;

using cni::Key;
using cni::Type;

bool is_type(const std::string& text) {
  return !text.empty() && text.find('/') == std::string::npos;
}

// The reference takes true and "true" in any case of letters.
bool is_flag(const std::string& text) {
  return cni::lower(text) == "true" || cni::lower(text) == "false";
}

constexpr Key kName{
    .name = "name",
    .fits = cni::is_network_name,
    .expected = "a name of letters, digits, '_', '.' and '-' that begins with a letter or digit",
    .required = true};
constexpr Key kVersion{
    .name = "cniVersion", .type = Type::kEnum, .enumeration = cni::kVersions, .or_empty = true};
constexpr Key kPluginKeys[] = {{.name = "type",
                                .fits = is_type,
                                .expected = "the name of a plugin's executable, without a slash",
                                .required = true}};
constexpr Key kListKeys[] = {
    kVersion,
    {.name = "cniVersions", .lists = 1},
    kName,
    {.name = "disableCheck", .type = Type::kBool, .fits = is_flag},
    {.name = "disableGC", .type = Type::kBool, .fits = is_flag},
    {.name = "loadOnlyInlinedPlugins", .type = Type::kBool, .fits = is_flag},
    {.name = "plugins",
     .type = Type::kObject,
     .lists = 1,
     .keys = kPluginKeys,
     .expected = "a plugin's config, an object",
     .open = true},
    {.name = "args", .type = Type::kObject, .open = true}};  // what podman writes its labels to
constexpr Key kSingleKeys[] = {kName, kPluginKeys[0], kVersion};

constexpr Key kList{.type = Type::kObject, .keys = kListKeys};
constexpr Key kPlugin{.type = Type::kObject, .keys = kPluginKeys, .open = true};
constexpr Key kSingle{.type = Type::kObject, .keys = kSingleKeys, .open = true};

std::string below(const std::string& path, const std::string& key) {
  return path.empty() ? key : cat(path, ".", key);
}

// Gives a key that is missing to the object if it has one that looks like it, and says so.
void respell(Document& document, const std::string& path, const char* missing,
             Diagnostics& diagnostics) {
  const json* const object = document.json.at(path);
  if (object == nullptr || !object->is_object() || member(*object, missing) != nullptr) return;
  for (const auto& [key, value] : object->items()) {
    if (cni::nearest(key, {missing}) != missing) continue;
    const std::string place = below(path, key);
    diagnostics.add(document, place, {.what = cni::kUnknownKey, .suggestion = missing}, At::kKey);
    document.json.respell(place, missing);
    return;
  }
}

// The nearest text to a version that is newer than all may be the oldest of all.
std::string version_meant(const json& root, const std::string& otherwise) try {
  const std::string newest(cni::str(cni::kNewest));
  const bool is_newer =
      cni::SemVer::parse(text_at(root, "cniVersion")) > cni::SemVer::parse(newest);
  return is_newer ? cat("\"", newest, "\"") : otherwise;
} catch (const cni::Error&) {
  return otherwise;
}

void add_complaints(const Document& document, const std::vector<cni::Complaint>& complaints,
                    Diagnostics& diagnostics) {
  for (const cni::Complaint& one : complaints) {
    const bool is_unknown = one.what == cni::kUnknownKey;
    const Remark passed_over{Severity::kWarning, "no key of a list: runtimes pass it to no plugin"};
    diagnostics.add(
        document, one.path,
        is_unknown && one.suggestion.empty()
            ? passed_over
            : Remark{.what = one.what,
                     .suggestion = one.path == "cniVersion"
                                       ? version_meant(document.json.value, one.suggestion)
                                       : one.suggestion},
        is_unknown ? At::kKey : At::kValue);
  }
}

// The highest version that both know, out of cniVersion and cniVersions (spec 1.1, section 1).
void read_version(NetworkText& network, Diagnostics& diagnostics) {
  const Document& document = *network.document;
  const json& root = document.json.value;
  network.version = text_at(root, "cniVersion");
  const json* const all = member(root, "cniVersions");
  std::optional<cni::Version> best;
  if (!network.version.empty()) best = cni::version_from(network.version);
  if (all != nullptr && all->is_array()) {
    for (const json& one : *all) {
      const std::string text = one.is_string() ? one.get<std::string>() : "";
      const auto version = text.empty() ? std::nullopt : cni::version_from(text);
      if (version && (!best || *version > *best)) best = version;
    }
  }
  network.version_known = best || network.version.empty();
  if (best) network.version = cni::str(*best);
  if (best) return;
  if (all != nullptr && all->is_array() && !all->empty()) {
    network.version_known = false;
    diagnostics.add(document, "cniVersions", {.what = "no supported version of the spec"});
  } else if (network.version.empty() && member(root, "cniVersion") == nullptr) {
    diagnostics.add(
        document, "cniVersion",
        {Severity::kWarning,
         "the key is missing, which means 0.1.0: no CHECK, one address of each family"});
  }
}

void read_plugin(Document& document, const std::string& path, NetworkText& network) {
  const json& conf = *document.json.at(path);
  if (!conf.is_object()) return;
  std::string type = text_at(conf, "type");
  if (type.find('/') != std::string::npos) type.clear();
  network.plugins.push_back({.document = &document, .path = path, .type = type});
}

void read_list(NetworkText& network, Diagnostics& diagnostics) {
  Document& document = *network.document;
  const json& root = document.json.value;
  respell(document, "", "plugins", diagnostics);
  const json* const plugins = member(root, "plugins");
  const std::size_t count = plugins != nullptr && plugins->is_array() ? plugins->size() : 0;
  const auto path_of = [](std::size_t i) { return cat("plugins[", i, "]"); };
  for (std::size_t i = 0; i < count; ++i) respell(document, path_of(i), "type", diagnostics);
  if (plugins == nullptr && member(root, "type") != nullptr) {
    diagnostics.add(
        document, "type",
        {.what = "the config of one plugin; a *.conflist has a list of them: {\"name\": "
                 "..., \"plugins\": [{\"type\": ...}]}"},
        At::kKey);
  }
  add_complaints(document, cni::complaints(kList, root), diagnostics);
  if (plugins != nullptr && plugins->is_array() && count == 0) {
    diagnostics.add(document, "plugins", {.what = "no plugins in list"});
  }
  for (std::size_t i = 0; i < count; ++i) read_plugin(document, path_of(i), network);
}

void read_single(NetworkText& network, Diagnostics& diagnostics) {
  Document& document = *network.document;
  const json& root = document.json.value;
  if (member(root, "type") == nullptr && member(root, "plugins") != nullptr) {
    diagnostics.add(document, "plugins",
                    {.what = "a list of plugins stands in a file *.conflist, this is read as one "
                             "plugin"},
                    At::kKey);
    return;
  }
  respell(document, "", "type", diagnostics);
  add_complaints(document, cni::complaints(kSingle, root), diagnostics);
  read_plugin(document, "", network);
}

}  // namespace

std::string PluginText::at(const std::string& key) const { return below(path, key); }

bool PluginText::declares(const char* capability) const {
  const json* const declared = member(conf(), "capabilities");
  return declared != nullptr && is_true(*declared, capability);
}

void warn(const PluginText& plugin, const std::string& key, const std::string& what,
          Diagnostics& diagnostics) {
  diagnostics.add(*plugin.document, plugin.at(key), {Severity::kWarning, what});
}

Form form_of(const std::string& file) {
  return std::filesystem::path(file).extension() == ".conflist" ? Form::kList : Form::kPlugin;
}

NetworkText read_network(Document& document, Form form, Diagnostics& diagnostics) {
  NetworkText network{.document = &document};
  const json& root = document.json.value;
  if (!root.is_object()) {
    diagnostics.add(document, "", {.what = "expected a JSON object"});
    return network;
  }
  const bool has_plugins = member(root, "plugins") != nullptr;
  if (form == Form::kEither)
    form = !has_plugins && member(root, "type") != nullptr ? Form::kPlugin : Form::kList;
  respell(document, "", "name", diagnostics);
  network.name = text_at(root, "name");
  read_version(network, diagnostics);
  form == Form::kList ? read_list(network, diagnostics) : read_single(network, diagnostics);
  return network;
}

std::string more_plugins_dir(const NetworkText& network, const std::string& beside) {
  const json& root = network.document->json.value;
  const bool inlined = is_true(root, "loadOnlyInlinedPlugins") ||
                       cni::lower(text_at(root, "loadOnlyInlinedPlugins")) == "true";
  const bool is_list = network.plugins.empty() || !network.plugins[0].path.empty();
  const std::string& name = network.name;
  if (inlined || !is_list || name.empty() || name[0] == '.') return "";
  if (name.find('/') != std::string::npos) return "";
  return (std::filesystem::path(beside) / name).string();
}

void add_plugin(Document& document, NetworkText& network, Diagnostics& diagnostics) {
  const json& root = document.json.value;
  if (!root.is_object()) return diagnostics.add(document, "", {.what = "expected a JSON object"});
  respell(document, "", "type", diagnostics);
  add_complaints(document, cni::complaints(kPlugin, root), diagnostics);
  read_plugin(document, "", network);
}

void require_plugins(const NetworkText& network, Diagnostics& diagnostics) {
  const json& root = network.document->json.value;
  if (!network.plugins.empty() || !root.is_object() || member(root, "plugins") != nullptr ||
      member(root, "type") != nullptr) {
    return;
  }
  diagnostics.add(*network.document, "plugins",
                  {.what = "expected a list of plugins: the key is missing"});
}

}  // namespace tool
