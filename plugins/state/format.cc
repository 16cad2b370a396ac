#include "plugins/state/format.h"

#include "libcni/common/error.h"
#include "libcni/config/json.h"

namespace plugins {

namespace {

using nlohmann::json;

void refuse_later(const json& document, int newest) {
  const std::string format = later_format(document, newest);
  if (format.empty()) return;
  throw cni::Error(cni::Code::kInternal,
                   cni::cat("a newer version of patchbay wrote it (format ", format,
                            ", this version reads ", newest, "): install that version again"));
}

}  // namespace

std::vector<const json*> state_objects(const json& document) {
  std::vector<const json*> out;
  const auto add = [&](const json& one) {
    if (!one.is_object()) return;
    out.push_back(&one);
    const auto own = one.find("patchbay");
    if (own != one.end() && own->is_object()) out.push_back(&*own);
  };
  if (!document.is_array()) add(document);
  if (document.is_array()) {
    for (const auto& one : document) add(one);
  }
  return out;
}

std::string later_format(const json& document, int newest) {
  for (const json* one : state_objects(document)) {
    const auto format = one->find("format");
    const bool is_later = format != one->end() && format->is_number_integer() && *format > newest;
    if (is_later) return format->dump();
  }
  return {};
}

std::optional<json> document_in(const std::string& text, int newest) {
  std::optional<json> out;
  try {
    out = cni::parse_json(text, "it");
  } catch (const cni::Error&) {
    return out;
  }
  refuse_later(*out, newest);
  return out;
}

void refuse_content(std::string_view why) {
  throw cni::Error(cni::Code::kInternal,
                   cni::cat("this version of patchbay does not understand it (", why,
                            "): install the version that wrote it"));
}

void read_document(const std::string& text, const Reading& how,
                   const std::function<void(const cni::Reader& root)>& read) {
  auto doc = document_in(text, how.newest);
  if (!doc) return;
  try {
    if (how.modernize != nullptr) how.modernize(*doc);
    read(cni::Reader(*doc));
  } catch (const cni::Error& e) {
    refuse_content(e.what());
  } catch (const json::exception& e) {
    refuse_content(e.what());
  }
}

}  // namespace plugins
