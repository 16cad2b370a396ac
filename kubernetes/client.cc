#include "kubernetes/client.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "kubernetes/answer.h"
#include "kubernetes/connection.h"
#include "kubernetes/lines.h"
#include "kubernetes/stop.h"
#include "libcni/common/error.h"

namespace kubernetes {

namespace {

using cni::cat;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMaxIdle = 4;  // connections
constexpr std::size_t kMaxErrorBody = 1U << 20;
constexpr std::size_t kMaxRequest = 16U << 20;  // etcd takes 1.5 MiB
constexpr std::chrono::seconds kNoRetryAfter{1};
constexpr int kUnauthorized = 401;
constexpr milliseconds kTokenPoll{1000};

// Text of another's that is no UTF-8 is sent with replacement characters.
std::string text_of(const Json& body) {
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_success(const Reply& reply) { return reply.status >= 200 && reply.status < 300; }

}  // namespace

struct Client::Impl {
  Impl(Access of, Limits within) : access(std::move(of)), limits(within) {}

  // A connection that no other thread has; kept afterwards unless the call failed.
  template <class Fn>
  Reply with_connection(Fn fn) {
    std::unique_ptr<Connection> one;
    {
      const std::scoped_lock lock(mutex);
      if (!idle.empty()) {
        one = std::move(idle.back());
        idle.pop_back();
      }
    }
    if (!one) one = std::make_unique<Connection>(access, stop);
    Reply out = fn(*one);
    const std::scoped_lock lock(mutex);
    if (idle.size() < kMaxIdle) idle.push_back(std::move(one));
    return out;
  }

  Reply authorized(const Request& request, const Bounds& bounds,
                   const Connection::OnPiece& on_piece = {});
  Json call(const Request& request);
  Json page(const std::string& path, Query query, const std::string& token);
  std::string pages(const std::string& path, const Query& query, const Sink& sink,
                    bool& is_expired);

  const Access access;
  const Limits limits;
  Stop stop;
  std::mutex mutex;
  std::string refused;  // token
  std::vector<std::unique_ptr<Connection>> idle;
};

// The kubelet writes a service account's token anew long before the earlier one expires.
Reply Client::Impl::authorized(const Request& request, const Bounds& bounds,
                               const Connection::OnPiece& on_piece) {
  const std::string token = token_of(access);
  const auto perform = [&](const std::string& by) {
    return with_connection(
        [&](Connection& one) { return one.perform(request, by, bounds, on_piece); });
  };
  Reply out = perform(token);
  if (access.token_file.empty()) return out;
  std::string again = token;
  if (out.status == kUnauthorized && (again = token_of(access)) != token) out = perform(again);
  const std::scoped_lock lock(mutex);
  refused = out.status == kUnauthorized ? again : "";
  return out;
}

Json Client::Impl::call(const Request& request) {
  if (request.body.size() > kMaxRequest)
    throw ApiError(cat(request.what(), ": the object is too large"), {});
  const auto end = Clock::now() + limits.deadline;
  for (;;) {
    const Bounds bounds{.connect = limits.connect, .end = end, .body = limits.body};
    const Reply reply = authorized(request, bounds);
    if (is_success(reply)) return object_in(request.what(), reply);
    const bool is_busy = reply.status == 429 || (reply.status == 503 && reply.retry_after);
    const auto pause = reply.retry_after.value_or(kNoRetryAfter);
    if (!is_busy || Clock::now() + pause >= end) throw error_of(request.what(), reply);
    if (!stop.wait(std::max<milliseconds>(pause, milliseconds(100)))) {
      throw ApiError(cat(request.what(), ": stopped"), {.status = 0, .reason = "Stopped"});
    }
  }
}

Client::Client(Access access, Limits limits) {
  require_safe(access);
  impl_ = std::make_unique<Impl>(std::move(access), limits);
}

Client::~Client() = default;

Json Client::get(const std::string& path) { return impl_->call({.method = "GET", .path = path}); }

Json Client::create(const std::string& path, const Json& body) {
  return impl_->call({"POST", path, text_of(body), "application/json"});
}

Json Client::replace(const std::string& path, const Json& body) {
  return impl_->call({"PUT", path, text_of(body), "application/json"});
}

Json Client::merge_patch(const std::string& path, const Json& body) {
  return impl_->call({"PATCH", path, text_of(body), "application/merge-patch+json"});
}

Json Client::apply(const std::string& path, const Json& body) {
  return impl_->call({"PATCH", path, text_of(body), "application/apply-patch+yaml"});
}

void Client::remove(const std::string& path, const Precondition& precondition) {
  Json preconditions = Json::object();
  if (!precondition.uid.empty()) preconditions["uid"] = precondition.uid;
  if (!precondition.resource_version.empty()) {
    preconditions["resourceVersion"] = precondition.resource_version;
  }
  const Json options = {
      {"kind", "DeleteOptions"}, {"apiVersion", "v1"}, {"preconditions", preconditions}};
  impl_->call({"DELETE", path, options.dump(), "application/json"});
}

Json Client::Impl::page(const std::string& path, Query query, const std::string& token) {
  query.emplace_back("limit", std::to_string(limits.page));
  if (!token.empty()) query.emplace_back("continue", token);
  Json out = call({.method = "GET", .path = path + text_of(query)});
  const auto items = out.find("items");
  const std::string what = cat("get '", path, "': ");
  if (items != out.end() && items->is_null()) *items = Json::array();  // of Go's empty lists
  if (items == out.end() || !items->is_array() || metadata_of(out, "resourceVersion").empty()) {
    throw ApiError(what + "the answer is no list", {});
  }
  for (const Json& item : *items) {
    if (metadata_of(item, "name").empty()) throw ApiError(what + "an object has no name", {});
  }
  return out;
}

std::string Client::Impl::pages(const std::string& path, const Query& query, const Sink& sink,
                                bool& is_expired) {
  std::string token;
  std::size_t taken = 0;
  const std::size_t most = limits.objects / std::max<std::size_t>(limits.page, 1) + 100;
  for (std::size_t count = 0; count < most; ++count) {
    Json one;
    try {
      one = page(path, query, token);
    } catch (const ApiError& e) {
      is_expired = e.is_expired() && !token.empty();
      throw;
    }
    Json& items = one["items"];
    taken += items.size();
    if (taken > limits.objects) break;
    for (Json& item : items) sink.take(std::move(item));
    token = metadata_of(one, "continue");
    if (token.empty()) return metadata_of(one, "resourceVersion");
  }
  throw ApiError(
      cat("get '", path, "': more than ", limits.objects, " objects, or pages without end"), {});
}

std::string Client::each(const std::string& path, const Query& query, const Sink& sink) {
  bool is_expired = false;
  sink.begin();
  try {
    return impl_->pages(path, query, sink, is_expired);
  } catch (const ApiError&) {
    if (!is_expired) throw;
  }
  sink.begin();
  return impl_->pages(path, query, sink, is_expired);
}

Client::List Client::list(const std::string& path, const Query& query) {
  List out;
  out.resource_version = each(path, query,
                              {.begin = [&] { out.items.clear(); },
                               .take = [&](Json&& one) { out.items.push_back(std::move(one)); }});
  return out;
}

void Client::stream(const std::string& path, milliseconds most, const OnLine& on_line) {
  Lines lines(impl_->limits.line, on_line);
  const Request request{.method = "GET", .path = path};
  const Bounds bounds{.connect = impl_->limits.connect,
                      .end = Clock::now() + most,
                      .answer = impl_->limits.deadline,
                      .body = kMaxErrorBody};
  const Reply reply =
      impl_->authorized(request, bounds, [&](std::string_view piece) { lines.take(piece); });
  if (reply.status != 200) throw error_of(request.what(), reply);
}

void Client::stop() noexcept { impl_->stop.set(); }
bool Client::is_stopped() const noexcept { return impl_->stop.is_set(); }
bool Client::wait(milliseconds pause) const { return impl_->stop.wait(pause); }

bool Client::has_new_token() const try {
  std::string refused;
  {
    const std::scoped_lock lock(impl_->mutex);
    refused = impl_->refused;
  }
  return !refused.empty() && token_of(impl_->access) != refused;
} catch (const ApiError&) {
  return false;  // it is just being written
}

bool Client::wait_for_token(milliseconds pause) const {
  for (; pause > kTokenPoll && !has_new_token(); pause -= kTokenPoll) {
    if (!wait(kTokenPoll)) return false;
  }
  return has_new_token() ? !is_stopped() : wait(pause);
}

const Access& Client::access() const { return impl_->access; }

}  // namespace kubernetes
