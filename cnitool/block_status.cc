#include "cnitool/block_status.h"

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "libcni/config/json.h"
#include "libcni/daemon/client.h"
#include "netlink/types/error.h"
#include "plugins/names/blocks.h"

namespace tool {

namespace {

constexpr std::size_t kMaxStatus = 1U << 20;

template <class T>
T said(const nlohmann::json& of, const char* name, T absent) try {
  return of.value(name, absent);
} catch (const nlohmann::json::exception&) {  // of another type
  return absent;
}

}  // namespace

std::optional<BlockStatus> block_status() {
  nlohmann::json answer;
  try {
    answer = cni::try_parse_json(cni::exchange_line(
        names::kBlocksSocket, "{\"verb\": \"status\"}\n", std::chrono::seconds(1), kMaxStatus));
  } catch (const netlink::Error& e) {
    const bool is_unknown = e.error() == EACCES || e.error() == EPERM;  // the socket is root's
    return is_unknown ? std::optional<BlockStatus>(BlockStatus{}) : std::nullopt;
  }
  BlockStatus out;
  if (!answer.is_object()) return out;
  out.engine = said<std::string>(answer, "engine", "");
  out.serves = said(answer, "serves", true);
  out.is_engine_there = said(answer, "there", false);
  out.why = said<std::string>(answer, "why", "");
  const auto missing = answer.find("missing");
  if (missing == answer.end() || !missing->is_array()) return out;
  for (const auto& one : *missing) {
    if (said<std::string>(one, "node", "").empty()) continue;
    out.missing.push_back(
        {said<std::string>(one, "node", ""), said<std::int64_t>(one, "seconds", 0)});
  }
  return out;
}

}  // namespace tool
