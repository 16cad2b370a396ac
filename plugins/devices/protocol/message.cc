#include "plugins/devices/protocol/message.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libcni/config/conf.h"
#include "libcni/config/json.h"

namespace devices {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;
using cni::Reader;
using nlohmann::json;

constexpr std::string_view kVerbs[] = {"claim", "status"};  // the order is that of Verb
constexpr std::size_t kMaxText = 512;  // a name of Kubernetes has at most 253 bytes
constexpr std::size_t kMaxError = 4096;

std::string dump(const json& message) {
  return cat(message.dump(-1, ' ', false, json::error_handler_t::replace), "\n");
}

json message_in(std::string_view line, std::size_t limit) {
  if (line.size() > limit) {
    throw Error(Code::kDecodingFailure, cat("the message has more than ", limit, " bytes"));
  }
  json out = cni::parse_json(line, "the message");
  if (!out.is_object()) throw Error(Code::kDecodingFailure, "the message is no object");
  return out;
}

std::string text_at(const Reader& object, const char* key) {
  const Reader place = object[key];
  if (!place.present()) {
    throw Error(Code::kDecodingFailure,
                cat(object.path(), object.path().empty() ? "" : ".", key, ": expected a string"));
  }
  std::string out = place.as_string();
  if (out.empty() || out.size() > kMaxText) {
    place.fail(cat("expected 1 to ", kMaxText, " bytes"));
  }
  return out;
}

Verb verb_at(const Reader& root) {
  const std::string name = text_at(root, "do");
  const auto* const found = std::ranges::find(kVerbs, name);
  if (found == std::end(kVerbs)) root["do"].fail("expected claim or status");
  return Verb(found - kVerbs);
}

void require_version(const Reader& root) {
  std::int64_t version = kProtocolVersion;
  root.into("version", version, 1, INT32_MAX);
  if (version <= kProtocolVersion) return;
  throw Error(Code::kIncompatibleVersion,
              cat("version ", version, " of the protocol is not supported, only ", kProtocolVersion,
                  ": patchbay-agent is older than the plugin devices"));
}

Error error_at(const Reader& place) {
  unsigned code = unsigned(Code::kInternal);
  std::string text, details;
  place.into("code", code, 1, INT32_MAX);
  place.into("msg", text);
  place.into("details", details);
  return {Code(code), text.empty() ? "patchbay-agent failed" : text, details};
}

std::vector<std::string> devices_at(const Reader& place) {
  std::vector<std::string> out = place.present() ? place.as_strings() : std::vector<std::string>();
  if (out.size() > kMaxDevices) place.fail(cat("expected at most ", kMaxDevices, " devices"));
  if (!std::ranges::all_of(out, is_device_id)) place.fail("expected IDs of devices");
  return out;
}

SlicesStatus slices_at(const Reader& place) {
  SlicesStatus out;
  place.into("generation", out.generation, 0, INT64_MAX);
  place.into("slices", out.slices, 0, INT32_MAX);
  place.into("devices", out.devices, 0, INT32_MAX);
  place.into("error", out.error);
  return out;
}

}  // namespace

std::string line_of(const Question& question) {
  json out = {{"version", kProtocolVersion}, {"do", kVerbs[std::size_t(question.verb)]}};
  if (question.verb == Verb::kClaim) {
    const Pod& pod = question.pod;
    out["pod"] = {{"namespace", pod.space}, {"name", pod.name}, {"uid", pod.uid}};
    out["containerID"] = question.container_id;
    out["network"] = question.network;
  }
  return dump(out);
}

std::string line_of(Verb verb, const Answer& answer) {
  if (answer.error) {
    const Error& e = *answer.error;
    json error = {{"code", unsigned(e.code())}, {"msg", e.what()}};
    if (!e.details().empty()) error["details"] = e.details();
    return dump({{"error", error}});
  }
  if (verb == Verb::kClaim) return dump({{"devices", answer.devices}});
  json resources = json::array();
  for (const ResourceState& one : answer.resources) {
    resources.push_back({{"name", one.name},
                         {"devices", one.devices},
                         {"healthy", one.healthy},
                         {"read", one.is_read}});
  }
  json out = {{"resources", std::move(resources)}};
  if (answer.slices) {
    out["slices"] = {{"generation", answer.slices->generation},
                     {"slices", answer.slices->slices},
                     {"devices", answer.slices->devices},
                     {"error", answer.slices->error.substr(0, kMaxError)}};
  }
  return dump(out);
}

Question question_in(std::string_view line) {
  const json message = message_in(line, kMaxQuestion);
  const Reader root(message, Code::kDecodingFailure);
  require_version(root);
  Question out{.verb = verb_at(root)};
  if (out.verb != Verb::kClaim) return out;
  const Reader pod = root["pod"];
  if (!pod.present()) throw Error(Code::kDecodingFailure, "pod: expected an object");
  out.pod = {text_at(pod, "namespace"), text_at(pod, "name"), text_at(pod, "uid")};
  out.container_id = text_at(root, "containerID");
  out.network = text_at(root, "network");
  return out;
}

Answer answer_in(std::string_view line) {
  const json message = message_in(line, kMaxAnswer);
  const Reader root(message, Code::kDecodingFailure);
  Answer out;
  if (const Reader error = root["error"]; error.present()) {
    out.error = error_at(error);
    return out;
  }
  if (!root["devices"].present() && !root["resources"].present()) {
    throw Error(Code::kDecodingFailure, "the message has neither devices nor resources nor error");
  }
  out.devices = devices_at(root["devices"]);
  for (const Reader& one : root["resources"].elements()) {
    ResourceState& into = out.resources.emplace_back();
    into.name = text_at(one, "name");
    one.into("devices", into.devices, 0, INT32_MAX);
    one.into("healthy", into.healthy, 0, INT32_MAX);
    one.into("read", into.is_read);
  }
  if (const Reader slices = root["slices"]; slices.present()) out.slices = slices_at(slices);
  return out;
}

}  // namespace devices
