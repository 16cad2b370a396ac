#include "libcni/runtime/cache_entry.h"

#include <nlohmann/json.hpp>

#include "libcni/common/version.h"
#include "libcni/config/conf.h"
#include "libcni/config/json.h"
#include "libcni/config/result.h"
#include "libcni/runtime/base64.h"

namespace cni {

namespace {

using nlohmann::json;

constexpr const char* kKind = "cniCacheV1";

Args args_from(const Reader& place) {
  Args out;
  for (const Reader& pair : place.elements()) {
    const auto parts = pair.as_strings();
    if (parts.size() != 2) pair.fail("expected a key and a value");
    out.emplace_back(parts[0], parts[1]);
  }
  return out;
}

json object_in(const Reader& place) {
  if (!place.present()) return nullptr;
  if (!place.json().is_object()) place.fail("expected an object");
  return place.json();
}

std::string config_in(const Reader& place) {
  if (!place.present()) return {};
  auto text = base64_decode(place.as_string());
  if (!text) place.fail("not base64");
  return std::move(*text);
}

json parse(const std::string& content) {
  if (content.empty()) throw Error(Code::kDecodingFailure, "it is empty");
  json doc = parse_json(content, "it");
  if (!doc.is_object()) throw Error(Code::kDecodingFailure, "it is not a JSON object");
  return doc;
}

// Runtimes of before CNI 1.1 did not write it down; but the interface's entry in the result has it.
std::string sandbox_in(const CachedAttachment& one) {
  try {
    for (const Interface& interface : result_from(one.result).interfaces) {
      if (interface.name == one.key.ifname && !interface.sandbox.empty()) return interface.sandbox;
    }
  } catch (const Error&) {  // it says nothing about the rest
  }
  return {};
}

CachedAttachment attachment_from(const json& doc) {
  const Reader root(doc, Code::kDecodingFailure);
  if (root["kind"].as_string() != kKind) root["kind"].fail(cat("expected \"", kKind, "\""));
  CachedAttachment out{.key = {root["networkName"].as_string(), root["containerId"].as_string(),
                               root["ifName"].as_string()},
                       .netns = {},
                       .args = args_from(root["cniArgs"]),
                       .capabilities = object_in(root["capabilityArgs"]),
                       .config = config_in(root["config"]),
                       .result = object_in(root["result"])};
  root.into("netns", out.netns);
  if (out.netns.empty() && !out.result->is_null()) out.netns = sandbox_in(out);
  for (const std::string* part : {&out.key.network, &out.key.container_id, &out.key.ifname}) {
    if (part->empty()) throw Error(Code::kDecodingFailure, "it does not say whose it is");
  }
  return out;
}

// A file of a runtime before cniCacheV1: the result alone.
bool is_bare_result(const json& doc) {
  const auto version = doc.find("cniVersion");
  return !doc.contains("kind") && version != doc.end() && version->is_string();
}

}  // namespace

// The keys and their order are the reference's.
std::string text_of(const CachedAttachment& one) {
  nlohmann::ordered_json out;
  out["kind"] = kKind;
  out["containerId"] = one.key.container_id;
  out["config"] = base64_encode(one.config);
  out["ifName"] = one.key.ifname;
  out["networkName"] = one.key.network;
  if (!one.netns.empty()) out["netns"] = one.netns;
  if (!one.args.empty()) {
    auto& args = out["cniArgs"] = nlohmann::ordered_json::array();
    for (const auto& [key, value] : one.args) {
      args.push_back(nlohmann::ordered_json::array({key, value}));
    }
  }
  if (!one.capabilities->empty()) out["capabilityArgs"] = *one.capabilities;
  if (!one.result->is_null()) out["result"] = *one.result;
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

CachedAttachment attachment_in(const std::string& name, const File& file,
                               const AttachmentKey* key) {
  const json doc = parse(file.content);
  CachedAttachment out;
  if (key != nullptr && is_bare_result(doc)) {
    out = {.key = *key, .netns = {}, .args = {}, .capabilities = {}, .config = {}, .result = doc};
    out.netns = sandbox_in(out);
  } else {
    out = attachment_from(doc);
    if (out.key.file_name() != name) {
      throw Error(Code::kDecodingFailure, cat("it is of ", out.key.str()));
    }
  }
  out.modified = file.modified;
  out.stamp = file.stamp;
  return out;
}

}  // namespace cni
