#include "libcni/cache.h"

#include <algorithm>
#include <cerrno>

#include "libcni/base64.h"
#include "libcni/conf.h"
#include "libcni/dir.h"
#include "libcni/json.h"
#include "libcni/result.h"
#include "libcni/undo.h"
#include "libcni/version.h"

namespace cni {

namespace {

using nlohmann::json;

constexpr const char* kKind = "cniCacheV1";

std::optional<Dir> results_in(const std::string& dir) { return Dir::open(dir + "/results"); }

std::string aside_of(const std::string& name) { return cat(".", name, ".new"); }

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
  if (!one.capabilities.empty()) out["capabilityArgs"] = one.capabilities;
  if (!one.result.is_null()) out["result"] = one.result;
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

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
  if (out.netns.empty() && !out.result.is_null()) out.netns = sandbox_in(out);
  for (const std::string* part : {&out.key.network, &out.key.container_id, &out.key.ifname}) {
    if (part->empty()) throw Error(Code::kDecodingFailure, "it does not say whose it is");
  }
  return out;
}

// What runtimes before cniCacheV1 left: the result alone.
bool is_bare_result(const json& doc) {
  const auto version = doc.find("cniVersion");
  return !doc.contains("kind") && version != doc.end() && version->is_string();
}

struct Content {
  std::optional<CachedAttachment> attachment;
  std::string why;  // there is none
};

// key: whose a bare result is; without it there is nobody to have it.
Content content_of(const std::string& name, const File& file, const AttachmentKey* key) try {
  const json doc = parse(file.content);
  Content out;
  if (key != nullptr && is_bare_result(doc)) {
    out.attachment = CachedAttachment{
        .key = *key, .netns = {}, .args = {}, .capabilities = nullptr, .config = {}, .result = doc};
  } else {
    out.attachment = attachment_from(doc);
    if (out.attachment->key.file_name() != name) {
      throw Error(Code::kDecodingFailure, cat("it is of ", out.attachment->key.str()));
    }
  }
  out.attachment->modified = file.modified;
  out.attachment->stamp = file.stamp;
  return out;
} catch (const Error& e) {
  return {.attachment = std::nullopt, .why = e.what()};
}

}  // namespace

std::string AttachmentKey::str() const {
  return cat("interface '", ifname, "' of container '", container_id, "' in network '", network,
             "'");
}

std::string AttachmentKey::file_name() const {
  if (network.empty() || container_id.empty() || ifname.empty()) {
    throw Error(Code::kInvalidEnvironment,
                cat("cache file path requires network name (\"", network, "\"), container ID (\"",
                    container_id, "\"), and interface name (\"", ifname, "\")"));
  }
  constexpr std::size_t kMostName = 255 - 5;  // NAME_MAX, and what aside_of() adds
  std::string name = cat(network, "-", container_id, "-", ifname);
  if (name.find('/') != std::string::npos || name.find('\0') != std::string::npos ||
      name.size() > kMostName) {
    throw Error(Code::kInvalidEnvironment, cat("'", name, "' cannot be a file's name"),
                "network, container ID and interface together name a file of the results cache");
  }
  return name;
}

void Cache::put(const CachedAttachment& attachment) const {
  constexpr unsigned kMode = 0700;  // as the reference: configs may hold secrets
  const std::string name = attachment.key.file_name();
  const std::string text = text_of(attachment);
  const Dir results = Dir::create(dir_).make_sub("results", kMode);
  // The first time without a file beside it, which a kill would leave there for ever.
  if (results.publish(name, text, aside_of(name))) return;
  results.replace(name, text, aside_of(name));
}

std::optional<CachedAttachment> Cache::find(const AttachmentKey& key) const {
  const std::string name = key.file_name();
  Content content;
  try {
    const auto results = results_in(dir_);
    const auto file = results ? results->read(name) : std::nullopt;
    if (!file) return std::nullopt;
    content = content_of(name, *file, &key);
  } catch (const netlink::Error& e) {
    content.why = e.what();
  }
  if (content.attachment && content.attachment->key == key) return content.attachment;
  if (content.attachment) content.why = cat("it is of ", content.attachment->key.str());
  note(cat("cache file '", dir_, "/results/", name, "' is passed over: ", content.why));
  return std::nullopt;
}

void Cache::remove(const AttachmentKey& key) const {
  const std::string name = key.file_name();
  std::optional<Dir> results;
  try {
    results = results_in(dir_);
  } catch (const netlink::Error& e) {
    if (e.code().value() != ENOTDIR) throw;  // where there is no directory there is no record
  }
  if (!results) return;
  results->remove(aside_of(name));
  std::optional<File> file;
  try {
    file = results->read(name);
  } catch (const netlink::Error&) {  // what cannot be read is as good as broken, and goes too
  }
  const auto other = file ? content_of(name, *file, &key).attachment : std::nullopt;
  if (!other || other->key == key) results->remove(name);
}

Cache::Listing Cache::list() const {
  Listing out;
  const auto results = results_in(dir_);
  if (!results) return out;
  auto names = results->names();
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    if (name.starts_with('.')) continue;  // half written
    const auto file = results->read(name);
    if (!file) continue;  // removed since, or no file
    Content content = content_of(name, *file, nullptr);
    if (content.attachment) {
      out.attachments.push_back(std::move(*content.attachment));
    } else {
      out.broken.push_back({name, std::move(content.why), file->stamp});
    }
  }
  return out;
}

}  // namespace cni
