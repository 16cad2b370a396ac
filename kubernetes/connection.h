#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kubernetes/access.h"
#include "kubernetes/answer.h"
#include "kubernetes/stop.h"

namespace kubernetes {

struct Request {
  const char* method = "GET";
  std::string path = {};  ///< below the server's URL, with its query
  std::string body = {};
  const char* content_type = "";  ///< of the body; "": it has none

  /// "get '/api/v1/nodes'", for errors.
  std::string what() const;
};

/// What a call may take.
struct Bounds {
  std::chrono::milliseconds connect{};
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max();
  std::chrono::milliseconds answer = std::chrono::milliseconds::max();  ///< until it begins
  std::size_t body = 0;
};

/// A connection by libcurl that is kept between its requests, of one thread at a time. It follows
/// no redirect and uses no proxy; certificates of the server are verified.
class Connection {
 public:
  /// \param access, stop outlive it.
  Connection(const Access& access, const Stop& stop);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Called with pieces of the body of an answer 200, which the reply then does not have.
  using OnPiece = std::function<void(std::string_view piece)>;
  /// \param token "": none. \throws ApiError without an answer; what on_piece throws.
  Reply perform(const Request& request, const std::string& token, const Bounds& bounds,
                const OnPiece& on_piece = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The text of a file or of the access itself, without line breaks at its end, as a header takes
/// it. \throws ApiError: not readable, no token in it.
std::string token_of(const Access& access);

}  // namespace kubernetes
