#include "cnitool/settings.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/output.h"
#include "cnitool/runtimes.h"
#include "cnitool/validate/validate.h"
#include "libcni/common/hash.h"
#include "libcni/common/split.h"
#include "libcni/common/undo.h"
#include "libcni/config/json.h"
#include "libcni/config/nearest.h"

namespace tool {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;

std::string variable(const cni::Env& env, std::string_view name, std::string_view otherwise) {
  const std::string_view value = cni::lookup(env, name);
  return std::string(value.empty() ? otherwise : value);
}

std::string absolute(const std::string& path) {
  std::string out = std::filesystem::absolute(path).lexically_normal().string();
  if (out.size() > 1 && out.ends_with('/')) out.pop_back();
  return out;
}

// A value of a config may be as long as its file.
std::string shortened(const std::string& text) {
  constexpr std::size_t kMax = 240;
  std::size_t end = std::min(text.find('\n'), kMax);
  if (end >= text.size()) return text;
  while (end > 0 && (text[end] & 0xc0) == 0x80) --end;  // not within a character of UTF-8
  return cat(text.substr(0, end), "...");
}

cni::Args args_from(const std::string& text) {
  cni::Args out;
  for (const std::string_view pair : cni::parts_of_args(text)) {
    const auto equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == pair.size()) {
      throw Error(Code::kInvalidEnvironment, cat("invalid CNI_ARGS pair \"", pair, "\""),
                  "expected KEY=VALUE, several of them separated by ';'");
    }
    out.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  return out;
}

nlohmann::json capabilities_from(const std::string& text) {
  if (text.empty()) return nullptr;
  nlohmann::json out = cni::parse_json(text, "CAP_ARGS");
  if (!out.is_object()) {
    throw Error(
        Code::kInvalidEnvironment, "CAP_ARGS: expected a JSON object",
        R"(as {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]})");
  }
  return out;
}

}  // namespace

Settings Settings::from(const cni::Env& env) {
  Settings out;
  out.conf_dir = variable(env, "NETCONFPATH", "");
  out.path = variable(env, "CNI_PATH", "");
  out.ifname = variable(env, "CNI_IFNAME", "eth0");
  out.args = variable(env, "CNI_ARGS", "");
  out.capabilities = variable(env, "CAP_ARGS", "");
  return out;
}

std::string use_runtime(Settings& settings) {
  if (!settings.conf_dir.empty() && !settings.path.empty()) return {};
  const auto runtimes = runtimes_of_node();
  const auto one = std::ranges::find(runtimes, false, &RuntimeConfig::lacks_cri);
  const bool is_known = one != runtimes.end();
  if (settings.conf_dir.empty()) settings.conf_dir = is_known ? one->conf_dir : "/etc/cni/net.d";
  if (settings.path.empty()) {
    settings.path = is_known ? joined(one->bin_dirs, ":") : PATCHBAY_PLUGIN_PATH;
  }
  return is_known ? one->failure : "";
}

std::string default_plugin_dir() { return cni::split_path(PATCHBAY_PLUGIN_PATH).front(); }

cni::AttachmentKey key_of(const Settings& settings, const std::string& network,
                          const std::string& netns) {
  constexpr std::size_t kDigits = 20;
  std::string id = settings.container_id;
  if (id.empty()) id = cat("cnitool-", cni::sha512_hex(absolute(netns), kDigits));
  return {network, id, settings.ifname};
}

cni::Target target_of(const Settings& settings, const std::string& netns) {
  const cni::AttachmentKey key = key_of(settings, "", netns);
  return {.container_id = key.container_id,
          .netns = absolute(netns),
          .ifname = key.ifname,
          .args = args_from(settings.args),
          .capabilities = capabilities_from(settings.capabilities)};
}

cni::RuntimeOptions runtime_options(const Settings& settings, const cni::Env& env) {
  cni::RuntimeOptions out;
  out.path = cni::split_path(settings.path);
  out.cache_dir = settings.cache_dir;
  out.env = env;
  out.limit = settings.limit == 0 ? cni::kNoLimit : std::chrono::seconds(settings.limit);
  out.undo_failed_add = settings.undo;
  // gc calls a plugin more than once, and repair for each pod.
  const auto said = std::make_shared<std::set<std::string, std::less<>>>();
  out.pass_stderr = [said](std::string_view text) {
    for (const std::string_view line : cni::split(text, "\n")) {
      if (said->emplace(line).second) cni::note(line);
    }
  };
  return out;
}

void note_broken(const cni::Networks& networks) {
  for (const cni::BrokenFile& one : networks.broken) {
    cni::note(cat(shortened(one.error.what()), " (`cnitool validate ", one.file, "` shows where)"));
  }
}

cni::NetworkList find_network(const Settings& settings, const std::string& name) {
  cni::Networks networks = cni::load_networks(settings.conf_dir);
  try {
    cni::NetworkList found = networks.find(name);
    note_broken(networks);
    return found;
  } catch (const Error& e) {
    const auto is_it = [&name](const auto& one) { return one.network == name; };
    const bool is_broken = std::erase_if(networks.broken, is_it) > 0;
    note_broken(networks);  // those of another error are its details, here in one line
    throw Error(e.code(), shortened(e.what()), is_broken ? e.details() : "");
  }
}

void require_network(const Settings& settings, const std::string& name) {
  const auto entries = cni::Cache(settings.cache_dir).list().attachments;
  const bool is_cached =
      std::ranges::any_of(entries, [&](const auto& one) { return one.key.network == name; });
  if (!name.empty() && !is_cached) find_network(settings, name);
}

std::vector<std::string> network_names(const Settings& settings) {
  std::set<std::string> known;
  for (const auto& list : cni::load_networks(settings.conf_dir).lists) known.insert(list.name);
  for (const auto& one : cni::Cache(settings.cache_dir).list().attachments) {
    known.insert(one.key.network);
  }
  return {known.begin(), known.end()};
}

std::string hint_for_network(const Settings& settings, const std::string& name) {
  const std::vector<std::string> names = network_names(settings);
  const std::string meant = cni::nearest(name, names);
  std::string out = names.empty() ? cat("networks are read from ", settings.conf_dir,
                                        ": set NETCONFPATH or --conf-dir for another directory")
                                  : cat("the networks are ", joined(names));
  if (!meant.empty()) out = cat("did you mean ", meant, "? ", out);
  const std::vector<std::string> unread = unread_files(settings.conf_dir);
  if (unread.empty()) return out;
  return cat(out,
             "; not read, because only files *.conflist, *.conf and *.json are: ", joined(unread));
}

cni::Attachment attachment_from(const std::string& text) {
  const auto colon = text.find(':');
  cni::Attachment out{text.substr(0, colon),
                      colon == std::string::npos ? "eth0" : text.substr(colon + 1)};
  if (out.container_id.empty() || out.ifname.empty()) {
    throw Error(Code::kInvalidConfig, cat("--keep '", text, "': expected CONTAINER:IFNAME"));
  }
  return out;
}

std::vector<cni::Attachment> attachments_from(std::string_view json) {
  const nlohmann::json doc = cni::parse_json(json, "--keep-json");
  if (!doc.is_array()) throw Error(Code::kInvalidConfig, "--keep-json: expected a list");
  std::vector<cni::Attachment> out;
  for (const cni::Reader& one : cni::Reader(doc, Code::kInvalidConfig, "--keep-json").elements()) {
    out.push_back({one["containerID"].as_string(), one["ifname"].as_string()});
  }
  return out;
}

}  // namespace tool
