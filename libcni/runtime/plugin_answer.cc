#include "libcni/runtime/plugin_answer.h"

#include <nlohmann/json.hpp>

#include "libcni/common/version.h"
#include "libcni/config/conf.h"
#include "libcni/config/json.h"
#include "libcni/config/result.h"
#include "libcni/plugin/repair.h"

namespace cni {

namespace {

using nlohmann::json;

// A plugin of 0.1.0 does not know the command; one of 0.2.0 may leave out the list.
std::vector<std::string> supported_in(const json& doc) {
  const Reader root(doc, Code::kDecodingFailure);
  const std::string own = root["cniVersion"].as_string();
  std::vector<std::string> out;
  root.into("supportedVersions", out);
  if (out.empty() && own == "0.2.0") out = {"0.1.0", "0.2.0"};
  if (out.empty()) root["supportedVersions"].fail("expected a list of versions");
  return out;
}

// An announcement of ours is a list of strings.
std::vector<std::string> verbs_in(const json& doc) {
  std::vector<std::string> out;
  const auto found = doc.find(Repair::kVerbsKey);
  if (found == doc.end() || !found->is_array()) return out;
  for (const json& one : *found) {
    if (one.is_string()) out.push_back(one.get<std::string>());
  }
  return out;
}

json answer_in(const std::string& printed) {
  try {
    json answer = parse_json(printed, "it");
    if (!answer.is_object()) throw Error(Code::kDecodingFailure, "it is not a JSON object");
    return answer;
  } catch (const Error& e) {
    throw Error(e.code(), cat("read its answer: ", e.what()), printed);
  }
}

std::vector<std::string> found_of(const json& answer) {
  std::vector<std::string> out;
  Reader(answer, Code::kDecodingFailure).into("found", out);
  return out;
}

// Complains about what is no result. version is the list's, and becomes the result's own if it has
// one. null is an empty result, as in the reference.
void require_result(const json& doc, std::string& version) {
  if (doc.is_null()) return;
  if (!doc.is_object()) throw Error(Code::kDecodingFailure, "it is not a JSON object");
  std::string own;
  Reader(doc, Code::kDecodingFailure).into("cniVersion", own);
  if (!own.empty()) version = own;
  const auto known = version_from(version);
  if (!known) {
    throw Error(Code::kIncompatibleVersion,
                cat("unsupported CNI result version \"", version, "\""));
  }
  result_from(doc, *known);
}

}  // namespace

nlohmann::ordered_json result_in(const std::string& printed, const std::string& list_version) {
  std::string version = list_version.empty() ? "0.1.0" : list_version;
  try {
    if (printed.find_first_not_of(" \t\r\n") == std::string::npos) {
      throw Error(Code::kDecodingFailure, "it printed nothing");
    }
    require_result(parse_json(printed, "it"), version);
  } catch (const Error& e) {
    throw Error(e.code(), cat("read its result: ", e.what()), printed);
  }
  auto out = nlohmann::ordered_json::parse(printed);  // with its keys in the order it gave them
  if (!out.is_object()) out = nlohmann::ordered_json::object();
  out["cniVersion"] = version;
  return out;
}

RepairAnswer repair_in(const std::string& printed, const std::string& list_version) {
  const json answer = answer_in(printed);
  if (!answer.contains("result")) {
    throw Error(Code::kDecodingFailure, "read its answer: it has no result", printed);
  }
  RepairAnswer out{.found = found_of(answer), .result = {}};
  const auto ordered = nlohmann::ordered_json::parse(printed);
  out.result = json(result_in(ordered["result"].dump(), list_version));
  return out;
}

std::vector<std::string> found_in(const std::string& printed) {
  return found_of(answer_in(printed));
}

VersionAnswer versions_in(const std::string& printed) {
  const json doc = parse_json(printed, "what it printed");
  return {supported_in(doc), verbs_in(doc)};
}

}  // namespace cni
