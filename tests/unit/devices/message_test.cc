#include "plugins/devices/protocol/message.h"

#include <doctest/doctest.h>

#include <string>

using devices::Answer;
using devices::Question;
using devices::Verb;

namespace {

const Question kClaim{.pod = {"shop", "web-0", "5f3a"}, .container_id = "c1", .network = "net"};

cni::Code refusal_of(std::string_view line) {
  try {
    devices::question_in(line);
  } catch (const cni::Error& e) {
    return e.code();
  }
  return {};
}

}  // namespace

TEST_CASE("questions are read as they were written") {
  CHECK(devices::question_in(devices::line_of(kClaim)) == kClaim);
  const Question status{.verb = Verb::kStatus};
  CHECK(devices::question_in(devices::line_of(status)) == status);
}

TEST_CASE("answers are read as they were written") {
  const Answer devices{.devices = {"0000:03:00.1", "eth1:macvlan:0"}};
  CHECK(devices::answer_in(devices::line_of(Verb::kClaim, devices)).devices == devices.devices);
  CHECK(devices::answer_in(devices::line_of(Verb::kClaim, {})).devices.empty());
  const Answer state{.resources = {{"vendor.example/nic", 8, 7}}};
  CHECK(devices::answer_in(devices::line_of(Verb::kStatus, state)).resources == state.resources);
  CHECK_FALSE(devices::answer_in(devices::line_of(Verb::kStatus, state)).slices);
  const Answer slices{.slices = devices::SlicesStatus{7, 2, 130, "the server is away"}};
  CHECK(devices::answer_in(devices::line_of(Verb::kStatus, slices)).slices == slices.slices);
  const Answer failed{.error = cni::Error(cni::Code::kTryAgainLater, "ask the kubelet", "absent")};
  const auto error = devices::answer_in(devices::line_of(Verb::kClaim, failed)).error;
  REQUIRE(error);
  CHECK(error->code() == cni::Code::kTryAgainLater);
  CHECK(std::string(error->what()) == "ask the kubelet");
  CHECK(error->details() == "absent");
}

TEST_CASE("a line that is no question is refused") {
  const std::string claim = devices::line_of(kClaim);
  for (std::size_t size = 0; size + 2 < claim.size(); ++size) {
    CHECK(refusal_of(claim.substr(0, size)) == cni::Code::kDecodingFailure);
  }
  for (
      const char* const line :
      {"[]", "{}", "null", R"({"do":"claim"})", R"({"do":"reboot"})", R"({"do":["claim"]})",
       R"({"do":"claim","pod":{"namespace":"a","name":"b","uid":""},"containerID":"c","network":"n"})",
       R"({"do":"claim","pod":"a","containerID":"c","network":"n"})"}) {
    CHECK(refusal_of(line) == cni::Code::kDecodingFailure);
  }
  CHECK(refusal_of(R"({"version":2,"do":"status"})") == cni::Code::kIncompatibleVersion);
}

TEST_CASE("length, depth and number are limited") {
  const std::string open(9, '['), close(9, ']');
  CHECK(refusal_of("{\"do\":" + open + close + "}") == cni::Code::kDecodingFailure);
  CHECK(refusal_of(std::string(devices::kMaxQuestion + 1, ' ')) == cni::Code::kDecodingFailure);
  Question named = kClaim;
  named.pod.name = std::string(513, 'a');
  CHECK(refusal_of(devices::line_of(named)) == cni::Code::kDecodingFailure);
  Answer many{.devices = std::vector<std::string>(devices::kMaxDevices + 1, "a")};
  CHECK_THROWS_AS(devices::answer_in(devices::line_of(Verb::kClaim, many)), cni::Error);
  many.devices.pop_back();
  CHECK(devices::answer_in(devices::line_of(Verb::kClaim, many)).devices == many.devices);
}

TEST_CASE("brackets in a text are no depth") {
  Question named = kClaim;
  named.pod.name = std::string(100, '[') + "\\\"" + std::string(100, '{');
  CHECK(devices::question_in(devices::line_of(named)) == named);
}

TEST_CASE("an answer with an ID that is no name of a file is refused") {
  CHECK_THROWS_AS(devices::answer_in(R"({"devices":["../../etc/passwd"]})"), cni::Error);
  CHECK_THROWS_AS(devices::answer_in("{}"), cni::Error);
}
