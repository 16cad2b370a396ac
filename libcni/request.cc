#include "libcni/request.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "netlink/types/fd.h"

namespace cni {

namespace {

std::string lookup(const Env& env, std::string_view name) {
  const auto it = env.find(name);
  return it == env.end() ? std::string() : it->second;
}

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-';
}

// [A-Za-z0-9][A-Za-z0-9_.-]*, for container IDs and network names: both become file names.
bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_name_char) && text[0] != '_' &&
         text[0] != '.' && text[0] != '-';
}

void check_container_id(const std::string& id) {
  if (!is_name(id)) throw Error(Code::kInvalidEnvironment, "invalid characters in containerID", id);
}

bool is_space_at(std::string_view text, std::size_t i) {
  const auto c = static_cast<unsigned char>(text[i]);
  if (c == ' ' || (c >= '\t' && c <= '\r')) return true;
  // The Unicode white space that Go's unicode.IsSpace knows, as UTF-8.
  constexpr std::string_view kSpaces[] = {
      "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81",
      "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86",
      "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8",
      "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
  return std::any_of(std::begin(kSpaces), std::end(kSpaces),
                     [&](std::string_view space) { return text.substr(i, space.size()) == space; });
}

void check_ifname(const std::string& name) {
  constexpr std::size_t kMostIfname = 15;  // IFNAMSIZ - 1
  if (name.size() > kMostIfname) {
    throw Error(Code::kInvalidEnvironment, "interface name is too long",
                "interface name should be less than 16 characters");
  }
  if (name == "." || name == "..") {
    throw Error(Code::kInvalidEnvironment, "interface name is . or ..");
  }
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '/' || name[i] == ':' || is_space_at(name, i)) {
      throw Error(Code::kInvalidEnvironment,
                  "interface name contains / or : or whitespace characters", name);
    }
  }
}

struct Needs {
  bool id, netns, ifname, path;
};

Needs needs_of(std::string_view command) {
  if (command == "ADD" || command == "CHECK") return {true, true, true, true};
  if (command == "DEL") return {true, false, true, true};
  if (command == "GC" || command == "STATUS") return {false, false, false, true};
  return {false, false, false, false};
}

// The reference's order: each variable in turn, validated where it is required; then what is
// missing.
void read_environment(const Env& env, Request& request) {
  const std::string command = lookup(env, "CNI_COMMAND");
  const Needs needs = needs_of(command);
  std::string missing;
  const auto take = [&](const char* name, bool required) {
    std::string value = lookup(env, name);
    if (value.empty() && required) missing += cat(missing.empty() ? "" : ",", name);
    return value;
  };
  take("CNI_COMMAND", true);
  request.container_id = take("CNI_CONTAINERID", needs.id);
  if (needs.id && !request.container_id.empty()) check_container_id(request.container_id);
  request.netns = take("CNI_NETNS", needs.netns);
  request.ifname = take("CNI_IFNAME", needs.ifname);
  if (needs.ifname && !request.ifname.empty()) check_ifname(request.ifname);
  request.args = take("CNI_ARGS", false);
  std::string path = take("CNI_PATH", needs.path);
  if (!missing.empty()) {
    throw Error(Code::kInvalidEnvironment, cat("required env variables [", missing, "] missing"));
  }
  if (!needs.id) request.container_id.clear();
  if (!needs.ifname) request.ifname.clear();
  for (std::size_t at = 0; !path.empty() && at <= path.size();) {
    const auto colon = std::min(path.find(':', at), path.size());
    if (colon > at) request.path.push_back(path.substr(at, colon - at));
    at = colon + 1;
  }
}

// Copying and printing JSON recurses as deep as it nests, so what nests deeper than any config does
// is refused before it is parsed (Go's encoding/json draws the line at 10000).
bool nests_too_deep(std::string_view json) {
  constexpr int kMost = 1000;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMost) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

nlohmann::json parse_config(const std::string& input) {
  if (nests_too_deep(input)) {
    throw Error(Code::kDecodingFailure, "the network config on stdin nests more than 1000 levels");
  }
  try {
    return nlohmann::json::parse(input);
  } catch (const nlohmann::json::parse_error& e) {
    const std::string_view what = e.what();  // "[json.exception...] parse error at line 1, ..."
    const auto close = what.find("] ");
    throw Error(Code::kDecodingFailure,
                cat("the network config on stdin is not JSON: ",
                    close == std::string_view::npos ? what : what.substr(close + 2)));
  }
}

std::string read_name(const nlohmann::json& conf) {
  if (!conf.is_object()) {
    throw Error(Code::kDecodingFailure, "the network config on stdin is not a JSON object");
  }
  std::string name;
  Reader(conf, Code::kDecodingFailure).into("name", name);
  if (name.empty()) throw Error(Code::kInvalidConfig, "missing network name");
  if (!is_name(name)) {
    throw Error(Code::kInvalidConfig, "invalid characters found in network name", name);
  }
  return name;
}

Command read_command(const std::string& text) {
  for (const Command c : {Command::kAdd, Command::kDel, Command::kCheck, Command::kGc,
                          Command::kStatus, Command::kVersion}) {
    if (str(c) == text) return c;
  }
  throw Error(Code::kInvalidEnvironment, cat("unknown CNI_COMMAND: ", text));
}

// The oldest version that has the verb.
Version first_version_of(Command command) {
  if (command == Command::kCheck) return Version::k0_4_0;
  if (command == Command::kGc || command == Command::kStatus) return Version::k1_1_0;
  return Version::k0_1_0;
}

Version read_version(const nlohmann::json& conf, Command command) {
  std::string text;
  Reader(conf, Code::kDecodingFailure).into("cniVersion", text);
  const Version first = first_version_of(command);
  if (first != Version::k0_1_0) {
    const SemVer wanted = SemVer::parse(text);
    if (wanted < SemVer::parse(str(first))) {
      throw Error(
          Code::kIncompatibleVersion, cat("config version does not allow ", str(command)),
          cat("cniVersion is \"", text, "\", ", str(command), " needs ", str(first), " or newer"));
    }
    if (wanted > SemVer::parse(str(kNewest))) {
      throw Error(Code::kIncompatibleVersion, cat("plugin version does not allow ", str(command)),
                  cat("cniVersion is \"", text, "\", the newest supported is ", str(kNewest)));
    }
  }
  if (const auto version = version_from(text)) return *version;
  std::string list;
  for (const auto v : supported_versions()) list += cat(list.empty() ? "" : " ", "\"", v, "\"");
  throw Error(Code::kIncompatibleVersion, "incompatible CNI versions",
              cat("config is \"", text, "\", plugin supports [", list, "]"));
}

}  // namespace

Env current_environment() {
  Env env;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view pair = *entry;
    const auto equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    env.insert_or_assign(std::string(pair.substr(0, equals)), std::string(pair.substr(equals + 1)));
  }
  return env;
}

std::string_view str(Command command) {
  switch (command) {
    case Command::kAdd:
      return "ADD";
    case Command::kDel:
      return "DEL";
    case Command::kCheck:
      return "CHECK";
    case Command::kGc:
      return "GC";
    case Command::kStatus:
      return "STATUS";
    case Command::kVersion:
      return "VERSION";
  }
  return "?";
}

void Request::read(const Env& from, int in) {
  env = from;
  read_environment(env, *this);
  const std::string verb = lookup(env, "CNI_COMMAND");
  if (verb == str(Command::kVersion)) return;  // stdin is not read
  try {
    input = netlink::read_all(in, "stdin");
  } catch (const netlink::Error& e) {
    throw Error(Code::kIoFailure, cat("error reading from stdin: ", e.what()));
  }
  conf = parse_config(input);
  network = read_name(conf);
  command = read_command(verb);
  version = read_version(conf, command);
}

Version Request::stated_version() const noexcept try {
  if (!conf.is_object()) return kNewest;
  std::string text;
  reader().into("cniVersion", text);
  return version_from(text).value_or(kNewest);
} catch (const std::exception&) {
  return kNewest;
}

std::optional<Result> Request::prev_result() const {
  const Reader place = reader()["prevResult"];
  if (!place.present()) return std::nullopt;
  return during("could not parse prevResult", [&] { return result_from(place.json(), version); });
}

std::vector<Attachment> Request::valid_attachments() const {
  // The keys contain dots and slashes; what they are called in complaints is their full name.
  for (const char* key : {"cni.dev/valid-attachments", "cni.dev/attachments"}) {
    if (!conf.contains(key)) continue;
    std::vector<Attachment> out;
    for (const Reader& one : reader()[key].elements()) {
      Attachment attachment{one["containerID"].as_string(), one["ifname"].as_string()};
      if (attachment.container_id.empty() || attachment.ifname.empty()) {
        one.fail("expected containerID and ifname, neither of them empty");
      }
      out.push_back(std::move(attachment));
    }
    return out;
  }
  throw Error(Code::kInvalidConfig,
              "cni.dev/valid-attachments: expected the list of attachments to keep: the key is "
              "missing");
}

netlink::NetNs open_netns(const Request& request) try {
  return netlink::NetNs::open(request.netns);
} catch (const netlink::Error& e) {
  throw Error(Code::kInvalidNetNs, cat("CNI_NETNS: ", e.what()));
}

void require_foreign_netns(const Request& request) {
  if (request.command != Command::kAdd && request.command != Command::kDel) return;
  std::string override_value = lookup(request.env, "CNI_NETNS_OVERRIDE");
  for (char& c : override_value) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (override_value == "1" || override_value == "true" || request.netns.empty()) return;
  if (netlink::NetNs::is_current(request.netns)) {
    throw Error(Code::kInvalidNetNs,
                "plugin's netns and netns from CNI_NETNS should not be the same", request.netns);
  }
}

}  // namespace cni
