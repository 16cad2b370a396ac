#include "cnitool/validate/plugin_check.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/known_plugins.h"
#include "libcni/common/version.h"
#include "libcni/config/complaints.h"
#include "libcni/config/names.h"
#include "libcni/config/nearest.h"
#include "libcni/config/subnet_env.h"

namespace tool {

namespace {

using cni::Fact;
using nlohmann::json;

constexpr const char* kIpam = "ipam";

/// One plugin while it is checked.
struct Checked {
  NetworkText& network;
  std::size_t index;
  Plugins& plugins;
  Diagnostics& diagnostics;

  PluginText& plugin() const { return network.plugins[index]; }
  Document& document() const { return *plugin().document; }
  std::string at(const std::string& path) const {
    return path.empty() ? plugin().path : plugin().at(path);
  }
};

// Whether the executable is there and speaks the network's version. \param key where it is named.
bool is_usable(const Checked& in, const std::string& type, const std::string& key) {
  const PluginFacts& facts = in.plugins.of(type);
  if (facts.file.empty()) {
    in.diagnostics.add(in.document(), in.at(key),
                       {.what = facts.failure, .suggestion = in.plugins.similar(type)});
    return false;
  }
  if (!facts.failure.empty()) {
    in.diagnostics.add(in.document(), in.at(key), {.what = facts.failure});
    return false;
  }
  const std::string& version = in.network.version;
  const std::string wanted = version.empty() ? "0.1.0" : version;
  if (in.network.version_known &&
      std::ranges::find(facts.versions, wanted) == facts.versions.end()) {
    in.diagnostics.add(in.document(), in.at(key),
                       {.what = cat("plugin ", type, " does not support cniVersion ", wanted,
                                    ", it supports ", joined(facts.versions))});
  }
  return true;
}

// Keys of IPAM plugins that people write beside "ipam".
constexpr std::string_view kOfIpam[] = {"subnet",  "ranges", "rangeStart", "rangeEnd",
                                        "gateway", "routes", "addresses"};

// "10M" of a rate, as tc(8) takes it; empty for another text.
std::string number_in(const std::string& text) {
  constexpr std::string_view kUnits = "kmg";
  const auto end = text.find_first_not_of("0123456789");
  if (end == 0 || end == std::string::npos || end > 6) return {};
  const std::string unit = cni::lower(text.substr(end));
  const auto power = kUnits.find(unit[0]);
  if (power == kUnits.npos || (unit.size() > 1 && unit.substr(1) != "bit")) return {};
  return cat(text.substr(0, end), std::string(3 * (power + 1), '0'));
}

// What a value of another type is for.
std::string value_meant(const Checked& in, const std::string& path) {
  const json* const value = in.document().json.at(in.at(path));
  if (value == nullptr || !value->is_string()) return {};
  const std::string text = value->get<std::string>();
  return path == kIpam ? json{{"type", text}}.dump() : number_in(text);
}

std::string suggestion_of(const Checked& in, const cni::Complaint& complaint) {
  constexpr std::string_view kByRuntime = "runtimeConfig.";
  const auto is_path_in = [&complaint](const auto& all) {
    return std::ranges::find(all, complaint.path) != std::end(all);
  };
  const std::string& meant = complaint.suggestion;
  if (meant.starts_with(kByRuntime) && in.network.has_runtime) {
    return cat("\"capabilities\": {\"", meant.substr(kByRuntime.size()), "\": true}");
  }
  if (!meant.empty()) return meant;
  if (complaint.what != cni::kUnknownKey) return value_meant(in, complaint.path);
  return in.plugin().facts.has(Fact::kInterface) && is_path_in(kOfIpam)
             ? cat(kIpam, ".", complaint.path)
             : "";
}

bool is_capability(const cni::Complaint& complaint) {
  return complaint.path.starts_with("capabilities.");
}

bool gets_ips(const Checked& in) {
  const json* const declared = member(in.plugin().conf(), "capabilities");
  const json* const ips = declared == nullptr ? nullptr : member(*declared, "ips");
  return ips != nullptr && *ips == true;
}

// A plugin passes over a key that it does not know: a warning, unless it resembles one that it
// knows. What the runtime replaces is not read either.
Severity severity_of(const Checked& in, const cni::Complaint& complaint) {
  const std::string& path = complaint.path;
  const bool replaced = path.starts_with("ipam.addresses[") && path.ends_with("].address") &&
                        complaint.what.ends_with("the key is missing") && gets_ips(in);
  const bool unread = complaint.what == cni::kUnknownKey && suggestion_of(in, complaint).empty();
  return replaced || unread ? Severity::kWarning : Severity::kError;
}

void add(const Checked& in, const cni::Complaint& complaint) {
  in.diagnostics.add(in.document(), in.at(complaint.path),
                     {severity_of(in, complaint), complaint.what, suggestion_of(in, complaint)},
                     complaint.what == cni::kUnknownKey ? At::kKey : At::kValue);
}

// A key that is meant by an unknown one beside it: with its name the rest is seen.
bool respell(const Checked& in, const cni::Complaint& complaint) {
  const std::string meant = suggestion_of(in, complaint);
  if (complaint.what != cni::kUnknownKey || meant.empty()) return false;
  if (meant.find_first_of(".[{") != std::string::npos) return false;
  return in.document().json.respell(in.at(complaint.path), meant);
}

// Adds the unknown keys. Whether one of them was respelled.
bool respell_all(const Checked& in, const std::vector<cni::Complaint>& complaints) {
  bool respelled = false;
  for (const cni::Complaint& one : complaints) {
    if (one.what != cni::kUnknownKey || is_capability(one)) continue;  // see check_capabilities()
    add(in, one);
    respelled = respell(in, one) || respelled;
  }
  return respelled;
}

void check_common(const Checked& in) {
  const cni::Manual any{.purpose = "", .facts = {Fact::kIpam}};
  for (const cni::Complaint& one : cni::complaints(any, in.plugin().conf())) {
    const bool unknown = one.what == cni::kUnknownKey;  // a plugin may have its own idea of "dns"
    in.diagnostics.add(in.document(), in.at(one.path),
                       {unknown ? Severity::kWarning : Severity::kError, one.what, one.suggestion},
                       unknown ? At::kKey : At::kValue);
  }
}

// The capabilities that a plugin's schema knows.
std::vector<std::string> capabilities_of(const json& schema) {
  std::vector<std::string> out;
  const auto known = json::json_pointer("/properties/capabilities/properties");
  if (!schema.contains(known)) return out;
  for (const auto& [name, ignored] : schema[known].items()) out.push_back(name);
  return out;
}

// One that neither the plugin nor its IPAM plugin takes: a warning, because runtimes may have more
// of them than a plugin knows. Their schemas alone cannot tell: each leaves room for what is the
// other's.
void check_capabilities(const Checked& in, const std::vector<std::string>& known) {
  const json* const declared = member(in.plugin().conf(), "capabilities");
  if (declared == nullptr || !declared->is_object()) return;
  for (const auto& [name, ignored] : declared->items()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    in.diagnostics.add(in.document(), in.at(cat("capabilities.", name)),
                       {Severity::kWarning,
                        cat("no capability of ", in.plugin().type,
                            known.empty() ? "" : cat(", which has ", joined(known))),
                        cni::nearest(name, known)},
                       At::kKey);
  }
}

// The input of the plugin's ADD. Plugins after the first get an empty result: theirs is unknown.
json input_of(const Checked& in) {
  const bool known = in.network.version_known;
  const std::string version = known ? in.network.version : std::string(cni::str(cni::kNewest));
  json conf = in.plugin().conf();
  if (in.plugin().added->is_object()) conf.update(*in.plugin().added);
  conf["name"] = cni::is_network_name(in.network.name) ? in.network.name : "unnamed";
  conf["cniVersion"] = version;
  if (in.index > 0) conf["prevResult"] = {{"cniVersion", version.empty() ? "0.1.0" : version}};
  return conf;
}

bool is_path(std::string_view text) {
  return !text.empty() && text != "config" &&  // Reader's word for the whole of it
         text.find_first_of(" '\"") == std::string_view::npos;
}

// The place that text begins with, empty where there is none, and the rest of it.
std::pair<std::string, std::string> split(const std::string& text) {
  const std::string first = text.substr(0, text.find(": "));
  if (!is_path(first)) return {"", text};
  return {first, first.size() == text.size() ? "" : text.substr(first.size() + 2)};
}

// The place that a parser's complaint names, in its message or, behind a sentence of the reference
// plugins, in its details; and the rest of it.
std::pair<std::string, std::string> place_in(const cni::Error& refused,
                                             const std::string& otherwise) {
  const auto joined = [](const std::string& text, const char* between, const std::string& more) {
    return cat(text, text.empty() || more.empty() ? "" : between, more);
  };
  auto [path, what] = split(refused.what());
  if (!path.empty()) return {path, joined(what, "; ", refused.details())};
  auto [place, value] = split(refused.details());
  if (place.empty()) return {otherwise, joined(refused.what(), "; ", value)};
  return {place, joined(refused.what(), ": ", value)};
}

// Takes what was complained about out of the config. False where it is not there.
bool remove(json& conf, const std::string& path) {
  cni::JsonText text;
  text.value = std::move(conf);
  const auto end = path.find_last_of(".[");
  json* const object = text.at(end == std::string::npos ? "" : path.substr(0, end));
  bool gone = false;
  if (object != nullptr && object->is_object()) {
    gone = object->erase(path.substr(end == std::string::npos ? 0 : end + 1)) > 0;
  }
  conf = std::move(*text.value);
  return gone;
}

// IPAM plugins have their keys in "ipam".
Verdict judge(const Checked& in, const std::string& type, const json& conf, bool is_ipam) {
  return in.plugins.judge(type, conf, {.is_ipam = is_ipam});
}

// Whether a complaint names a place, as "requires ipam.subnet" does. A key without a dot may be any
// word.
bool names(const std::string& what, const std::string& path) {
  if (path.find_first_of(".[") == std::string::npos) return false;
  const auto at = what.find(path);
  if (at == std::string::npos) return false;
  constexpr std::string_view kEnds = " :,;'\"";
  return at + path.size() == what.size() || kEnds.find(what[at + path.size()]) != kEnds.npos;
}

// The parser stops at the first mistake, so that the plugin is asked again without the key that
// it names. What it then says of that key is no mistake of the config.
void follow_parser(const Checked& in, const std::string& type, const std::string& otherwise,
                   Verdict verdict) {
  constexpr int kMax = 20;
  json conf = input_of(in);
  std::set<std::string> said;
  for (int i = 0; i < kMax; ++i) {
    const auto& refused = verdict.refusal;
    if (!refused || refused->code() == cni::Code::kIncompatibleVersion) return;
    const auto [path, what] = place_in(*refused, otherwise);
    const auto is_of = [&what = what](const std::string& removed) { return names(what, removed); };
    const bool is_follow_on = std::ranges::any_of(said, is_of);
    if (!said.insert(path).second) return;
    if (!is_follow_on) in.diagnostics.add(in.document(), in.at(path), {.what = what});
    if (!remove(conf, path)) return;
    verdict = judge(in, type, conf, otherwise == kIpam);
  }
}

// Adds the plugin's complaints. \param otherwise the place of errors that name none.
void check_with(const Checked& in, const std::string& type, const std::string& otherwise) {
  constexpr int kMaxRounds = 100;
  Verdict verdict = judge(in, type, input_of(in), otherwise == kIpam);
  for (int i = 0; i < kMaxRounds && respell_all(in, verdict.complaints); ++i) {
    verdict = judge(in, type, input_of(in), otherwise == kIpam);
  }
  std::erase_if(verdict.complaints, [](const auto& one) { return one.what == cni::kUnknownKey; });
  for (const cni::Complaint& one : verdict.complaints) add(in, one);
  if (verdict.complaints.empty()) follow_parser(in, type, otherwise, std::move(verdict));
}

void note_foreign(const Checked& in, const std::string& type, const std::string& key) {
  const std::string text =
      cat("plugin ", type, " does not describe its keys: only those of the spec are checked");
  const auto same = [&text](const Diagnostic& one) { return one.remark.what == text; };
  const auto& all = in.diagnostics.all();
  if (std::ranges::any_of(all, same)) return;
  in.diagnostics.add(in.document(), in.at(key), {Severity::kNote, text});
}

// The IPAM plugin reads the same config as the plugin that calls it.
void check_ipam(const Checked& in, std::vector<std::string> capabilities) {
  const json* const ipam = member(in.plugin().conf(), "ipam");
  const std::string type = ipam != nullptr ? text_at(*ipam, "type") : "";
  if (type.empty()) return check_capabilities(in, capabilities);
  if (!is_usable(in, type, "ipam.type")) return;
  const PluginFacts& facts = in.plugins.of(type);
  if (facts.schema->is_null()) return note_foreign(in, type, "ipam.type");
  for (const std::string& one : capabilities_of(facts.schema)) capabilities.push_back(one);
  if (!in.plugins.of(in.plugin().type).schema->is_null()) check_capabilities(in, capabilities);
  check_with(in, type, kIpam);
}

// The plugins that flannel calls. It completes their configs, and its own parser has judged what
// there is of them.
void check_delegates(const Checked& in) {
  std::vector<std::string> capabilities;
  for (const auto& [object, otherwise] :
       {std::pair("delegate", cni::kDelegate), {kIpam, cni::kDelegateIpam}}) {
    const json* const conf = member(in.plugin().conf(), object);
    const std::string named = conf != nullptr ? text_at(*conf, "type") : "";
    const std::string type = named.empty() ? otherwise : named;
    if (!is_usable(in, type, named.empty() ? "type" : cat(object, ".type"))) return;
    const PluginFacts& facts = in.plugins.of(type);
    if (facts.schema->is_null()) return note_foreign(in, type, cat(object, ".type"));
    for (const std::string& one : capabilities_of(facts.schema)) capabilities.push_back(one);
  }
  check_capabilities(in, capabilities);
}

void check_plugin(const Checked& in) {
  const std::string& type = in.plugin().type;
  if (type.empty() || !is_usable(in, type, "type")) return check_common(in);
  const PluginFacts& facts = in.plugins.of(type);
  if (facts.schema->is_null()) {
    note_foreign(in, type, "type");
    check_common(in);
    if (passes_ipam_on(in.plugin(), in.plugins)) check_ipam(in, {});
    return;
  }
  check_with(in, type, "");
  if (in.plugin().facts.has(Fact::kDelegates)) return check_delegates(in);
  check_ipam(in, capabilities_of(facts.schema));
}

// An IPAM plugin is asked only if it gets the config as it stands.
cni::Facts ipam_facts_of(const PluginText& plugin, Plugins& plugins) {
  const json* const ipam = member(plugin.conf(), kIpam);
  const std::string type = ipam == nullptr ? "" : text_at(*ipam, "type");
  return passes_ipam_on(plugin, plugins) ? plugins.facts_of(type) : facts_of(type);
}

}  // namespace

bool passes_ipam_on(const PluginText& plugin, Plugins& plugins) {
  return plugin.facts.has(Fact::kInterface) ||
         (!plugin.type.empty() && !plugins.of(plugin.type).schema->is_null());
}

void check_plugins(NetworkText& network, Plugins& plugins, Diagnostics& diagnostics) {
  for (std::size_t i = 0; i < network.plugins.size(); ++i) {
    PluginText& plugin = network.plugins[i];
    plugin.facts = plugins.facts_of(plugin.type);
    check_plugin({network, i, plugins, diagnostics});
    plugin.ipam_facts = ipam_facts_of(plugin, plugins);  // "ipam" may have been respelled
  }
}

}  // namespace tool
