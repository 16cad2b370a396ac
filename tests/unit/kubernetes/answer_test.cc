#include "kubernetes/answer.h"

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

using kubernetes::ApiError;
using kubernetes::error_of;
using kubernetes::Event;
using kubernetes::event_in;
using kubernetes::object_in;
using kubernetes::retry_after_in;
using std::chrono::seconds;

namespace {

ApiError error_in(const std::function<void()>& call) {
  try {
    call();
  } catch (const ApiError& e) {
    return e;
  }
  return {"no error", {}};
}

}  // namespace

TEST_CASE("Retry-After is seconds, at most a minute") {
  CHECK(retry_after_in(" 7\r\n") == seconds(7));
  CHECK(retry_after_in("0") == seconds(0));
  CHECK(retry_after_in("99999") == seconds(60));
  CHECK(retry_after_in("99999999999999999999") == seconds(60));
  for (const char* const text : {"", "\r\n", "-1", "1.5", "7s", "Wed, 21 Oct 2026 07:28:00 GMT"}) {
    CHECK_FALSE(retry_after_in(text));
  }
}

TEST_CASE("an error has the server's sentence, reason and status") {
  const ApiError e =
      error_of("get '/x'",
               {.status = 409,
                .body = R"({"kind":"Status","message":"it\u001b[2J\nchanged","reason":"Conflict"})",
                .retry_after = seconds(2)});
  CHECK(std::string(e.what()) == "get '/x': 409 Conflict: it?[2J changed");
  CHECK(e.status() == 409);
  CHECK(e.is_conflict());
  CHECK(e.is_passing());
  CHECK(e.reason() == "Conflict");
  CHECK(e.retry_after() == seconds(2));
}

TEST_CASE("an error of something else than an API server is its status") {
  const ApiError e = error_of("get '/x'", {.status = 502, .body = "<html>bad gateway</html>"});
  CHECK(std::string(e.what()) == "get '/x': 502");
  CHECK(e.is_passing());
  CHECK(std::string(error_of("get '/x'", {.status = 302}).what()) ==
        "get '/x': 302: redirects are not followed");
  const ApiError wrong =
      error_of("get '/x'", {.status = 404, .body = R"({"kind":"Status","message":7,"reason":{}})"});
  CHECK(std::string(wrong.what()) == "get '/x': 404");
  CHECK_FALSE(wrong.is_not_found());
  CHECK(error_of("get '/x'", {.status = 404, .body = R"({"kind":"Status","reason":"NotFound"})"})
            .is_not_found());
  CHECK_FALSE(wrong.is_passing());
}

TEST_CASE("an error has the causes that the sentence lacks, and says what RBAC lacks") {
  const auto text = [](int status, const char* more) {
    const std::string body = std::string(R"({"kind":"Status","reason":"R","message":)") + more;
    return std::string(error_of("put '/x'", {.status = status, .body = body}).what());
  };
  CHECK(text(422, R"("a is invalid: f: Required","details":{"causes":[
    {"field":"f","message":"Required"}, {"field":"g","message":"Too long\u001b"},
    {"message":"bad"}, {"field":"h"}, 7]}})") ==
        "put '/x': 422 R: a is invalid: f: Required; g: Too long?; bad");
  CHECK(text(422, R"("odd","details":{"causes":7}})") == "put '/x': 422 R: odd");
  CHECK(text(422, R"("odd","details":7})") == "put '/x': 422 R: odd");
  CHECK(text(403, R"("User \"u\" cannot get resource \"pods\""})") ==
        "put '/x': 403 R: User \"u\" cannot get resource \"pods\"; no Role or ClusterRole bound to "
        "that user allows it");
  CHECK(text(403, R"("denied by a webhook"})") == "put '/x': 403 R: denied by a webhook");
}

TEST_CASE("a long sentence of a server is cut") {
  const std::string body = R"({"kind":"Status","message":")" + std::string(100'000, 'x') + "\"}";
  CHECK(std::string(error_of("get", {.status = 500, .body = body}).what()).size() < 1100);
}

TEST_CASE("an answer that is no object of the API is an error") {
  for (const char* const body :
       {"", "<html>", "[]", "7", "null", "{}", R"({"kind":7})", R"({"kind":""})",
        R"({"kind":"Status","status":"Failure","code":500})", "\xff\xfe", "{\"kind\":\"Pod\""}) {
    INFO(body);
    CHECK(error_in([&] { object_in("get", {.status = 200, .body = body}); }).what() !=
          std::string("no error"));
  }
  CHECK(object_in("get", {.status = 200, .body = R"({"kind":"Pod"})"})["kind"] == "Pod");
  CHECK(object_in("delete",
                  {.status = 200, .body = R"({"kind":"Status","status":"Success"})"})["kind"] ==
        "Status");
}

TEST_CASE("events are changes, removals and bookmarks") {
  const std::string object =
      R"("object":{"kind":"Pod","metadata":{"name":"p","resourceVersion":"5"}}})";
  CHECK(event_in("watch", R"({"type":"ADDED",)" + object).kind == Event::Kind::kChanged);
  CHECK(event_in("watch", R"({"type":"MODIFIED",)" + object).resource_version == "5");
  CHECK(event_in("watch", R"({"type":"DELETED",)" + object).kind == Event::Kind::kRemoved);
  const Event mark = event_in(
      "watch", R"({"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"9"}}})");
  CHECK(mark.kind == Event::Kind::kBookmark);
  CHECK(mark.resource_version == "9");
}

TEST_CASE("an ERROR event is the error that its Status says") {
  const ApiError e = error_in([] {
    event_in(
        "watch",
        R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}})");
  });
  CHECK(e.is_expired());
  CHECK(std::string(e.what()) == "watch: 410 Expired: too old");
  const ApiError odd = error_in(
      [] { event_in("watch", R"({"type":"ERROR","object":{"kind":"Status","code":9999999}})"); });
  CHECK(odd.status() == 0);
}

TEST_CASE("lines that are no event are errors") {
  for (const char* const line :
       {"x", "{}", "[]", R"({"type":"ADDED"})", R"({"type":"ADDED","object":[]})",
        R"({"type":"ADDED","object":{}})",
        R"({"type":"ADDED","object":{"metadata":{"resourceVersion":"5"}}})",
        R"({"type":"ADDED","object":{"metadata":{"name":"p"}}})",
        R"({"type":7,"object":{"metadata":{"name":"p","resourceVersion":"5"}}})",
        R"({"type":"BOOKMARK","object":{"metadata":"x"}})"}) {
    INFO(line);
    CHECK(error_in([&] { event_in("watch", line); }).what() != std::string("no error"));
  }
}
