#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "kubernetes/error.h"
#include "kubernetes/json.h"

/// What comes from an API server, checked: it may be torn, of a proxy, or of another program.
namespace kubernetes {

/// An answer as it came.
struct Reply {
  int status = 0;
  std::string body = {};
  std::optional<std::chrono::seconds> retry_after = {};
};

/// Retry-After in seconds, at most kMaxRetryAfter; empty for a date and any other text.
std::optional<std::chrono::seconds> retry_after_in(std::string_view value);

/// Of an answer that is no success, with the server's own sentence if the body is a Status.
/// \param what was tried: "get '/api/v1/nodes/n1'".
ApiError error_of(const std::string& what, const Reply& reply);

/// The JSON of an answer that is a success. \throws ApiError: not an object with a kind; a Status
/// that is a failure.
Json object_in(const std::string& what, const Reply& reply);

/// metadata.name, .resourceVersion or another member of metadata; "" if it has none.
std::string metadata_of(const Json& object, const char* member);

/// A line of a watch.
struct Event {
  enum class Kind { kChanged, kRemoved, kBookmark };
  Kind kind;
  Json object;                   ///< has metadata.name, unless it is a bookmark
  std::string resource_version;  ///< not empty
};

/// \throws ApiError: ERROR events with their status; lines that are no event.
Event event_in(const std::string& what, std::string_view line);

}  // namespace kubernetes
