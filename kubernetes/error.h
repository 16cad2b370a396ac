#pragma once

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace kubernetes {

inline constexpr std::chrono::seconds kMaxRetryAfter{60};

/// What an answer of the API server says beside its sentence (Status of meta/v1).
struct Answer {
  int status = 0;           ///< of HTTP; 0: there was no answer, or none of an API server
  std::string reason = {};  ///< "Conflict", "Expired"; "Stopped" after Client::stop()
  std::optional<std::chrono::seconds> retry_after = {};  ///< at most kMaxRetryAfter
};

/// A call that failed. The message has the verb, the path and the server's own sentence.
class ApiError : public std::runtime_error {
 public:
  ApiError(const std::string& message, Answer answer)
      : std::runtime_error(message), answer_(std::move(answer)) {}

  int status() const noexcept { return answer_.status; }
  const std::string& reason() const noexcept { return answer_.reason; }
  std::optional<std::chrono::seconds> retry_after() const noexcept { return answer_.retry_after; }
  /// The token or the certificate: another one may do.
  bool is_unauthorized() const noexcept { return status() == 401; }
  bool is_forbidden() const noexcept { return status() == 403; }
  /// An API server's word that there is no such object: not a 404 of something in between, nor of a
  /// resource that is not served, which are no objects of meta/v1.
  bool is_not_found() const noexcept { return status() == 404 && reason() == "NotFound"; }
  /// The object changed since it was read, or exists already.
  bool is_conflict() const noexcept { return status() == 409; }
  /// The resourceVersion is too old: list again.
  bool is_expired() const noexcept { return status() == 410; }
  bool is_stopped() const noexcept { return status() == 0 && reason() == "Stopped"; }
  /// Whether the same call may succeed later: no answer, 408, 409, 429, 5xx.
  bool is_passing() const noexcept {
    return (status() == 0 && !is_stopped()) || status() == 408 || status() == 409 ||
           status() == 429 || status() >= 500;
  }

 private:
  Answer answer_;
};

}  // namespace kubernetes
