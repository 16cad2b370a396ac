#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kubernetes/access.h"
#include "kubernetes/error.h"
#include "kubernetes/json.h"
#include "kubernetes/path.h"

/// Client of a Kubernetes API server: HTTP and TLS by libcurl. It trusts the server with what its
/// objects say, and with no memory or time beyond these limits.
namespace kubernetes {

struct Limits {
  std::chrono::milliseconds connect{10'000};
  std::chrono::milliseconds deadline{
      30'000};                   ///< of a call with its repetitions, of a page of list()
  std::size_t body = 16U << 20;  ///< bytes of an answer
  std::size_t line = 4U << 20;   ///< bytes of an event of a watch
  std::size_t page = 500;        ///< objects that list() asks for at once
  std::size_t objects = 50'000;  ///< of list() as a whole
};

/// What remove() requires of the object; "" is anything.
struct Precondition {
  std::string uid = {}, resource_version = {};
};

/// Thread-safe: calls of several threads have connections of their own, which are kept. A call
/// repeats itself within its deadline after 429 and 503 with Retry-After, and once after 401 with
/// a token that was read anew. Everything throws ApiError; all but the JSON of objects is checked:
/// an answer is an object with `kind`, and one object has `metadata`.
///
/// Paths are those of path.h, and may have a query.
class Client {
 public:
  /// \throws cni::Error: require_safe().
  explicit Client(Access access, Limits limits = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  Json get(const std::string& path);
  Json create(const std::string& path, const Json& body);
  /// PUT. With a resourceVersion in the body it fails with 409 if the object has another one.
  Json replace(const std::string& path, const Json& body);
  /// RFC 7396. The same goes for a resourceVersion in the body.
  Json merge_patch(const std::string& path, const Json& body);
  /// Server-side apply, which takes fields from other managers.
  /// \param path with the parameter that names who applies it, by text_of().
  Json apply(const std::string& path, const Json& body);
  void remove(const std::string& path, const Precondition& precondition = {});

  struct List {
    std::vector<Json> items;       ///< objects with metadata.name
    std::string resource_version;  ///< for watch()
  };
  /// All objects, page by page. A token of `continue` that expired starts it again, once.
  List list(const std::string& path, const Query& query = {});
  struct Sink {
    std::function<void()> begin;  ///< what was taken before is no part of the list
    std::function<void(Json&&)> take;
  };
  /// list() for whoever has no room for all of them: each goes to the sink when its page arrives.
  /// Returns the resource version.
  std::string each(const std::string& path, const Query& query, const Sink& sink);

  /// \param line of an answer, without its line break. It may throw, which ends the watch.
  using OnLine = std::function<void(std::string_view line)>;
  /// Calls back for each whole line until the server ends the answer. A line that the end of the
  /// connection tore is none.
  /// \param most ends it with an error after that time, whatever arrives.
  void stream(const std::string& path, std::chrono::milliseconds most, const OnLine& on_line);

  /// Ends all calls at once, and each later one: "Stopped". From any thread.
  void stop() noexcept;
  bool is_stopped() const noexcept;
  /// False: stop() was called meanwhile.
  bool wait(std::chrono::milliseconds pause) const;
  /// Whether the file with the token has another one than that which the server refused last (401).
  bool has_new_token() const;
  /// wait() after a 401: ends early if has_new_token().
  bool wait_for_token(std::chrono::milliseconds pause) const;

  const Access& access() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kubernetes
