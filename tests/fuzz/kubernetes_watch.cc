// What an API server answers: one object, a failure, or a watch in pieces. The first byte is the
// size of these.
#include <algorithm>
#include <string>
#include <vector>

#include "kubernetes/answer.h"
#include "kubernetes/lines.h"
#include "tests/fuzz/fuzz.h"

namespace {

void require_plain(const kubernetes::ApiError& e) {
  const std::string text = e.what();
  fuzz::require(!text.empty() && text.size() < 5000, "an error is short");
  fuzz::require(std::ranges::none_of(text, [](char c) { return c == '\n' || c == '\x1b'; }),
                "an error is a line");
}

template <class Fn>
void answers(Fn fn) {
  try {
    fn();
  } catch (const kubernetes::ApiError& e) {
    require_plain(e);
  }
}

std::vector<std::string> lines_of(std::string_view text, std::size_t size) {
  std::vector<std::string> out;
  kubernetes::Lines lines(1U << 20U, [&](std::string_view line) { out.emplace_back(line); });
  for (; !text.empty(); text.remove_prefix(std::min(size, text.size()))) {
    lines.take(text.substr(0, size));
  }
  return out;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text = fuzz::text_of(data + 1, size - 1);
  const auto lines = lines_of(text, data[0] % 64U + 1);
  fuzz::require(lines == lines_of(text, size), "lines do not depend on pieces");
  for (const std::string& line : lines) {
    answers([&] {
      const auto event = kubernetes::event_in("watch", line);
      fuzz::require(!event.resource_version.empty(), "an event has a version");
      const bool is_mark = event.kind == kubernetes::Event::Kind::kBookmark;
      fuzz::require(is_mark || !kubernetes::metadata_of(event.object, "name").empty(),
                    "an object has a name");
    });
  }
  answers([&] {
    const auto object = kubernetes::object_in("get", {.status = 200, .body = std::string(text)});
    fuzz::require(object["kind"].is_string(), "an object has a kind");
  });
  require_plain(kubernetes::error_of("get", {.status = 503, .body = std::string(text)}));
  const auto pause = kubernetes::retry_after_in(text);
  fuzz::require(!pause || *pause <= kubernetes::kMaxRetryAfter, "a pause is limited");
  return 0;
}
