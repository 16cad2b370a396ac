#include "libcni/plugin/request.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "libcni/config/json.h"
#include "libcni/config/names.h"
#include "libcni/config/nearest.h"
#include "libcni/plugin/invoke.h"
#include "netlink/types/fd.h"

namespace cni {

namespace {

// The order is that of Command.
constexpr std::string_view kVerbs[] = {"ADD",     "DEL",    "CHECK",   "GC",     "STATUS",
                                       "VERSION", "REPAIR", "RECLAIM", "MIGRATE"};

struct Needs {
  bool id, netns, ifname, path;
};

Needs needs_of(std::string_view command) {
  if (command == "ADD" || command == "CHECK" || command == "REPAIR" || command == "MIGRATE")
    return {true, true, true, true};
  if (command == "DEL" || command == "RECLAIM") return {true, false, true, true};
  if (command == "GC" || command == "STATUS") return {false, false, false, true};
  return {false, false, false, false};
}

// The parts of a result must be text that JSON can carry. Only ADD refuses others: DEL takes any.
void require_utf8(const char* variable, const std::string& value) {
  try {
    static_cast<void>(nlohmann::json(value).dump());
  } catch (const nlohmann::json::type_error&) {
    throw Error(Code::kInvalidEnvironment, cat(variable, ": not UTF-8"), value);
  }
}

// The reference's order: each variable in turn, validated where it is required; then what is
// missing.
void take_variables(const Env& env, Request& request) {
  const std::string_view command = lookup(env, "CNI_COMMAND");
  const Needs needs = needs_of(command);
  std::string missing;
  const auto take = [&](const char* name, bool required) {
    std::string value(lookup(env, name));
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
  const std::string path = take("CNI_PATH", needs.path);
  if (!missing.empty()) {
    throw Error(Code::kInvalidEnvironment, cat("required env variables [", missing, "] missing"));
  }
  if (lookup(env, "CNI_COMMAND") == str(Command::kAdd)) {
    require_utf8("CNI_NETNS", request.netns);
    require_utf8("CNI_IFNAME", request.ifname);
  }
  if (!needs.id) request.container_id.clear();
  if (!needs.ifname) request.ifname.clear();
  request.path = split_path(path);
}

std::string read_name(const nlohmann::json& conf) {
  if (!conf.is_object()) {
    throw Error(Code::kDecodingFailure, "the network config on stdin is not a JSON object");
  }
  const Reader place = Reader(conf, Code::kDecodingFailure)["name"];
  if (place.present() && !place.json().is_string()) place.fail("expected a string");
  // as_string() would refuse a NUL byte, for which check_network_name() has a better message.
  const std::string name = place.present() ? place.json().get<std::string>() : std::string();
  check_network_name(name);
  return name;
}

Command read_command(std::string_view text) {
  const auto* const verb = std::ranges::find(kVerbs, text);
  if (verb != std::end(kVerbs)) return Command(verb - kVerbs);
  throw Error(Code::kInvalidEnvironment, cat("unknown CNI_COMMAND: ", text),
              "expected ADD, DEL, CHECK, GC, STATUS or VERSION");
}

// The oldest version that has the verb.
Version first_version_of(Command command) {
  if (command == Command::kCheck || command == Command::kRepair || command == Command::kMigrate)
    return Version::k0_4_0;
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

template <class Wanted>
Env environment_where(Wanted&& wanted) {
  Env env;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals == nullptr) continue;
    const std::string_view name(*entry, static_cast<std::size_t>(equals - *entry));
    if (wanted(name)) env.insert_or_assign(std::string(name), std::string(equals + 1));
  }
  return env;
}

}  // namespace

std::string_view lookup(const Env& env, std::string_view name) {
  const auto it = env.find(name);
  return it == env.end() ? std::string_view() : std::string_view(it->second);
}

Env current_environment() {
  return environment_where([](std::string_view) { return true; });
}

Env environment_for_plugins() {
  return environment_where([](std::string_view name) {
    return name.starts_with("CNI_") || name.starts_with("PATCHBAY_") || name == "TRACEPARENT";
  });
}

std::string_view str(Command command) { return kVerbs[static_cast<std::size_t>(command)]; }

void Request::read(const Env& from, int in) {
  if (!read_environment(from)) return;  // stdin is not read
  try {
    read_config(netlink::read_all(in, "stdin"));
  } catch (const netlink::Error& e) {
    throw Error(Code::kIoFailure, cat("error reading from stdin: ", e.what()));
  }
}

bool Request::read_environment(const Env& from) {
  env = from;
  take_variables(env, *this);
  return lookup(env, "CNI_COMMAND") != str(Command::kVersion);
}

void Request::read_config(std::string text) {
  input = std::move(text);
  conf = parse_json(input, "the network config on stdin");
  network = read_name(conf);
  command = read_command(lookup(env, "CNI_COMMAND"));
  version = read_version(conf, command);
}

Version Request::stated_version() const noexcept try {
  if (!conf->is_object()) return kNewest;
  std::string text;
  reader().into("cniVersion", text);
  return version_from(text).value_or(kNewest);
} catch (const std::exception&) {
  return kNewest;
}

std::optional<Result> Request::prev_result() const {
  const Reader place = reader()["prevResult"];
  if (!place.present()) return std::nullopt;
  if (!place.json().is_object()) {
    throw Error(Code::kDecodingFailure,
                cat("could not parse prevResult: expected an object: ", shortened(place.json())));
  }
  return during("could not parse prevResult", [&] { return result_from(place.json(), version); });
}

Result Request::required_prev_result(const std::string& sentence,
                                     const std::string& details) const {
  auto result = prev_result();
  if (!result) throw Error(Code::kInvalidConfig, sentence, details);
  return *std::move(result);
}

std::optional<std::vector<Attachment>> Request::valid_attachments() const {
  // The keys contain dots and slashes; what they are called in complaints is their full name.
  for (const char* key : {"cni.dev/valid-attachments", "cni.dev/attachments"}) {
    if (!conf->contains(key)) continue;
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
  return std::nullopt;
}

// The message is the reference plugins'.
static std::string why_closed(const std::string& path, const netlink::Error& e) try {
  const auto magic = netlink::NetNs::foreign_file_system(path);
  if (!magic) return netlink::errno_text(e.error());
  char text[2 * sizeof *magic + 1];
  std::snprintf(text, sizeof text, "%lx", *magic);
  return cat("unknown FS magic on \"", path, "\": ", text);
} catch (const netlink::Error& refusal) {
  return cat("failed to Statfs \"", path, "\": ", netlink::errno_text(refusal.error()));
}

netlink::NetNs enter_netns(const Request& request) try {
  return netlink::NetNs::open(request.netns);
} catch (const netlink::Error& e) {
  const std::string_view limit = netlink::limit_hint(e.error());
  const std::string_view hint = limit.empty() ? e.kernel_text() : limit;
  throw Error(Code::kInvalidNetNs, why_closed(request.netns, e),
              cat("the path is that of CNI_NETNS", hint.empty() ? "" : ": ", hint));
}

netlink::NetNs open_netns(const Request& request) {
  return during(cat("failed to open netns \"", request.netns, "\""),
                [&] { return enter_netns(request); });
}

void require_foreign_netns(const Request& request) {
  constexpr Command kAll[] = {Command::kAdd, Command::kDel, Command::kRepair, Command::kMigrate};
  if (std::ranges::find(kAll, request.command) == std::end(kAll)) return;
  const std::string override_value = lower(lookup(request.env, "CNI_NETNS_OVERRIDE"));
  if (override_value == "1" || override_value == "true" || request.netns.empty()) return;
  if (netlink::NetNs::is_current(request.netns)) {
    throw Error(Code::kInvalidNetNs,
                "plugin's netns and netns from CNI_NETNS should not be the same", request.netns);
  }
}

}  // namespace cni
