#include "libcni/runtime/conflist.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "libcni/common/version.h"
#include "libcni/config/conf.h"
#include "libcni/config/json.h"
#include "libcni/config/names.h"
#include "libcni/config/nearest.h"
#include "netlink/types/fd.h"

namespace cni {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The reference takes true and "true" in any case.
bool read_flag(const Reader& root, const char* key) {
  const Reader value = root[key];
  if (!value.present()) return false;
  if (!value.json().is_string()) return value.as_bool();
  const std::string text = lower(value.as_string());
  if (text != "true" && text != "false") value.fail("expected true or false");
  return text == "true";
}

// Spec 1.1, section 1: "the runtime must select the highest supported version" of both keys.
std::string negotiate(const Reader& root) {
  std::string single;
  root.into("cniVersion", single);
  const Reader all = root["cniVersions"];
  if (!all.present()) return single;
  std::optional<Version> best;
  const auto take = [&best](const std::string& text) {
    const auto version = version_from(text);
    if (version && (!best || *version > *best)) best = version;
  };
  for (const Reader& one : all.elements()) {
    const std::string text = one.as_string();
    try {
      SemVer::parse(text);
    } catch (const Error&) {
      one.fail("expected a version like 1.0.0");
    }
    if (!text.empty()) take(text);
  }
  if (!single.empty()) take(single);
  return best ? std::string(str(*best)) : single;
}

PluginConf plugin_from(const Reader& place) {
  PluginConf plugin;
  place.into("type", plugin.type);
  if (plugin.type.empty()) place["type"].fail("expected the name of a plugin");
  const Reader capabilities = place["capabilities"];
  if (capabilities.present()) {
    if (!capabilities.json().is_object()) capabilities.fail("expected an object");
    for (const auto& [key, value] : capabilities.json().items()) {
      bool ignored = false;
      capabilities.into(key.c_str(), ignored);
    }
  }
  plugin.conf = place.json();
  return plugin;
}

void require_object(const json& doc) {
  if (!doc.is_object()) throw Error(Code::kInvalidConfig, "expected a JSON object");
}

std::string name_in(const Reader& root) {
  const std::string name = root["name"].as_string();
  check_network_name(name);
  return name;
}

struct Parsed {
  NetworkList list;
  bool only_inlined = false;
};

Parsed parse_list(const json& doc) {
  require_object(doc);
  const Reader root(doc);
  Parsed out;
  NetworkList& list = out.list;
  list.name = name_in(root);
  list.version = negotiate(root);
  list.disable_check = read_flag(root, "disableCheck");
  list.disable_gc = read_flag(root, "disableGC");
  out.only_inlined = read_flag(root, "loadOnlyInlinedPlugins");
  const Reader plugins = root["plugins"];
  if (!plugins.present() && out.only_inlined) {
    plugins.fail("expected a list, as loadOnlyInlinedPlugins is true");
  }
  for (const Reader& one : plugins.elements()) list.plugins.push_back(plugin_from(one));
  if (plugins.present() && list.plugins.empty()) plugins.fail("no plugins in list");
  return out;
}

void require_plugins(const NetworkList& list) {
  if (list.plugins.empty())
    throw Error(Code::kInvalidConfig, "no plugin configs found",
                "plugins: expected a list of plugins' configs");
}

// A list that holds every plugin itself, in the words of the one it was made from.
std::string inlined(const json& doc, const NetworkList& list) {
  json out = doc;
  json& plugins = out["plugins"] = json::array();
  for (const PluginConf& plugin : list.plugins) plugins.push_back(*plugin.conf);
  out["loadOnlyInlinedPlugins"] = true;
  return out.dump();
}

// What a directory has with one of these extensions and is no directory, by name, as the reference
// library takes it: a FIFO and a link to nowhere are broken files.
std::vector<std::string> files_in(const std::string& dir,
                                  std::initializer_list<std::string_view> extensions) {
  std::vector<std::string> out;
  std::error_code error;
  fs::directory_iterator it(dir, error);
  if (error == std::errc::no_such_file_or_directory) return out;
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    const std::string extension = it->path().extension().string();
    std::error_code unreadable;
    if (std::ranges::find(extensions, extension) != extensions.end() &&
        !it->is_directory(unreadable)) {
      out.push_back(it->path().string());
    }
  }
  if (error) throw Error(Code::kIoFailure, cat("list '", dir, "': ", error.message()));
  std::ranges::sort(out);
  return out;
}

// Adds what stands in front of every complaint about a file.
template <class Fn>
auto about(const std::string& file, Fn&& fn) {
  return during(cat("read '", file, "'"), std::forward<Fn>(fn));
}

struct Document {
  std::string file, text;
  json root;
};

Document read_document(const std::string& file) {
  auto text = netlink::read_regular_file(file);
  if (!text) throw Error(Code::kIoFailure, cat("read '", file, "': no such file or directory"));
  json root = about(file, [&] { return parse_json(*text, "it"); });
  return {file, std::move(*text), std::move(root)};
}

void append_plugins(const std::string& dir, NetworkList& list) {
  for (const std::string& file : files_in(dir, {".conf"})) {
    const Document doc = read_document(file);
    about(file, [&] {
      require_object(doc.root);
      list.plugins.push_back(plugin_from(Reader(doc.root)));
    });
  }
}

NetworkList list_in(const Document& doc) {
  Parsed parsed = about(doc.file, [&] { return parse_list(doc.root); });
  NetworkList& list = parsed.list;
  const std::size_t inline_plugins = list.plugins.size();
  if (!parsed.only_inlined) {
    append_plugins((fs::path(doc.file).parent_path() / list.name).string(), list);
  }
  about(doc.file, [&] { require_plugins(list); });
  list.text = list.plugins.size() > inline_plugins ? inlined(doc.root, list) : doc.text;
  return std::move(list);
}

// A list of one plugin, as the reference library makes it.
NetworkList list_of_one(const json& doc) {
  require_object(doc);
  const Reader root(doc);
  if (!root["type"].present() && root["plugins"].present()) {
    throw Error(Code::kInvalidConfig,
                "a list of plugins stands in a file *.conflist, this is read as one plugin");
  }
  std::string version;
  root.into("cniVersion", version);
  const json wrapped{
      {"cniVersion", version}, {"name", root["name"].as_string()}, {"plugins", {doc}}};
  return list_from(wrapped.dump());
}

std::string name_of_broken(const std::string& file) noexcept try {
  std::string name;
  const Document doc = read_document(file);
  Reader(doc.root).into("name", name);
  return name;
} catch (const std::exception&) {
  return {};
}

void load(const std::string& file, Networks& into) {
  const auto broken = [&](const Error& e) {
    into.broken.push_back({.file = file, .network = name_of_broken(file), .error = e});
  };
  try {
    into.lists.push_back(load_list(file));
  } catch (const Error& e) {
    broken(e);
  } catch (const netlink::Error& e) {
    broken(Error(Code::kIoFailure, e.what()));
  }
}

}  // namespace

std::string PluginConf::own_name() const {
  const auto name = conf->find("name");
  return name != conf->end() && name->is_string() ? name->get<std::string>() : "";
}

std::set<std::string> PluginConf::capabilities() const {
  std::set<std::string> out;
  const Reader declared = Reader(conf)["capabilities"];
  if (!declared.present()) return out;
  for (const auto& [key, value] : declared.json().items()) {
    if (value.is_boolean() && value.get<bool>()) out.insert(key);
  }
  return out;
}

bool NetworkList::is_at_least(std::string_view oldest) const {
  return SemVer::parse(version) >= SemVer::parse(oldest);
}

NetworkList list_from(std::string_view text) {
  NetworkList list = parse_list(parse_json(text, "the network list")).list;
  require_plugins(list);
  list.text = text;
  return list;
}

NetworkList load_list(const std::string& file) {
  const Document doc = read_document(file);
  NetworkList list = fs::path(file).extension() == ".conflist"
                         ? list_in(doc)
                         : about(file, [&] { return list_of_one(doc.root); });
  list.file = file;
  return list;
}

const NetworkList& Networks::find(const std::string& name) const {
  const auto has_name = [&name](const NetworkList& list) { return list.name == name; };
  const auto found = std::ranges::find_if(lists, has_name);
  // Lists come before single configs, and each kind by file name.
  const auto rank = [](const std::string& file) {
    return std::pair(fs::path(file).extension() != ".conflist", file);
  };
  for (const BrokenFile& one : broken) {
    if (one.network != name) continue;
    if (found == lists.end() || rank(one.file) < rank(found->file)) throw one.error;
  }
  if (found != lists.end()) return *found;
  std::string details;
  for (const BrokenFile& one : broken) {
    details += cat(details.empty() ? "" : "; ", one.error.what());
  }
  if (lists.empty()) {
    throw Error(Code::kInvalidConfig, cat("no net configurations found in ", dir), details);
  }
  throw Error(Code::kInvalidConfig, cat("no net configuration with name \"", name, "\" in ", dir),
              details);
}

Networks load_networks(const std::string& dir) {
  Networks out;
  out.dir = dir;
  for (const std::string& file : files_in(dir, {".conflist"})) load(file, out);
  for (const std::string& file : files_in(dir, {".conf", ".json"})) load(file, out);
  return out;
}

}  // namespace cni
