#include "kubernetes/answer.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/common/printable.h"
#include "libcni/config/json.h"

namespace kubernetes {

namespace {

using cni::cat;

constexpr std::size_t kMaxSentence = 1024;  // bytes of a message of another program, in ours

std::string shown(std::string_view text) {
  std::string out = cni::printable_text(text.substr(0, kMaxSentence));
  std::ranges::replace(out, '\n', ' ');
  return out;
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// What is wrong with each field, as far as the sentence does not say it: of 422 it may be cut off.
std::string causes_in(const Json& status, const std::string& sentence) {
  constexpr std::size_t kMost = 8;
  const Json details = status.value("details", Json());
  const Json causes = details.is_object() ? details.value("causes", Json()) : Json();
  std::string out;
  for (std::size_t i = 0; causes.is_array() && i < std::min(causes.size(), kMost); ++i) {
    if (!causes[i].is_object()) continue;
    const std::string text = shown(text_at(causes[i], "message"));
    const std::string at = shown(text_at(causes[i], "field"));
    if (text.empty() || sentence.find(text) != sentence.npos) continue;
    out += cat("; ", at, at.empty() ? "" : ": ", text);
  }
  return out;
}

// The server names the user, the verb and the resource itself, if it is RBAC that refuses.
std::string advice_for(const Answer& answer, const std::string& sentence) {
  constexpr int kForbidden = 403;
  const bool is_rbac = answer.status == kForbidden && sentence.find(" cannot ") != sentence.npos;
  return is_rbac ? "; no Role or ClusterRole bound to that user allows it" : "";
}

// A failure's sentence and reason: those of a Status of meta/v1.
ApiError failure(const std::string& what, const Json& status, Answer answer) {
  std::string sentence;
  if (status.is_object() && status.value("kind", Json()) == Json("Status")) {
    sentence = shown(text_at(status, "message"));
    sentence += causes_in(status, sentence);
    answer.reason = shown(text_at(status, "reason")).substr(0, 64);
    const auto code = status.find("code");
    if (answer.status == 0 && code != status.end() && code->is_number_integer()) {
      const auto number = code->get<std::int64_t>();
      answer.status = number >= 400 && number <= 599 ? static_cast<int>(number) : 0;
    }
  }
  std::string message = cat(what, ": ", answer.status);
  if (!answer.reason.empty()) message += cat(" ", answer.reason);
  if (!sentence.empty()) message += cat(": ", sentence, advice_for(answer, sentence));
  return {message, std::move(answer)};
}

}  // namespace

std::optional<std::chrono::seconds> retry_after_in(std::string_view value) {
  const auto from = value.find_first_not_of(" \t");
  if (from == value.npos) return std::nullopt;
  const auto to = value.find_last_not_of(" \t\r\n") + 1;
  unsigned seconds = 0;
  const auto [end, error] = std::from_chars(value.data() + from, value.data() + to, seconds);
  if (end != value.data() + to) return std::nullopt;
  if (error == std::errc::result_out_of_range) return kMaxRetryAfter;
  if (error != std::errc{}) return std::nullopt;
  return std::min(std::chrono::seconds(seconds), kMaxRetryAfter);
}

ApiError error_of(const std::string& what, const Reply& reply) {
  const Answer answer{.status = reply.status, .reason = {}, .retry_after = reply.retry_after};
  if (reply.status >= 300 && reply.status < 400) {
    return {cat(what, ": ", reply.status, ": redirects are not followed"), answer};
  }
  return failure(what, cni::try_parse_json(reply.body), answer);
}

Json object_in(const std::string& what, const Reply& reply) {
  Json out = cni::try_parse_json(reply.body);
  const auto refuse = [&](const char* why) { throw ApiError(cat(what, ": ", why), {}); };
  if (out.is_discarded()) refuse("the answer is not JSON: is it an API server?");
  if (!out.is_object() || text_at(out, "kind").empty())
    refuse("the answer is no object with a kind");
  if (out["kind"] == "Status" && text_at(out, "status") != "Success") throw failure(what, out, {});
  return out;
}

std::string metadata_of(const Json& object, const char* member) {
  if (!object.is_object()) return {};
  const auto metadata = object.find("metadata");
  return metadata != object.end() && metadata->is_object() ? text_at(*metadata, member) : "";
}

Event event_in(const std::string& what, std::string_view line) {
  Json event = cni::try_parse_json(line);
  const auto refuse = [&](const std::string& why) { throw ApiError(cat(what, ": ", why), {}); };
  if (!event.is_object()) refuse("an event is not a JSON object");
  const std::string type = text_at(event, "type");
  const auto object = event.find("object");
  if (object == event.end() || !object->is_object()) refuse("an event has no object");
  if (type == "ERROR") throw failure(what, *object, {});
  Event out{.kind = Event::Kind::kChanged, .object = std::move(*object), .resource_version = {}};
  out.resource_version = metadata_of(out.object, "resourceVersion");
  if (out.resource_version.empty()) refuse("an event has no resourceVersion");
  if (type == "BOOKMARK") {
    out.kind = Event::Kind::kBookmark;
    return out;
  }
  if (type != "ADDED" && type != "MODIFIED" && type != "DELETED") {
    refuse(cat("an event of the type '", shown(type), "'"));
  }
  if (metadata_of(out.object, "name").empty()) refuse("an object has no name");
  if (type == "DELETED") out.kind = Event::Kind::kRemoved;
  return out;
}

}  // namespace kubernetes
