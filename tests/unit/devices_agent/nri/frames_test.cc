#include "plugins/devices/agent/nri/frames.h"

#include <doctest/doctest.h>

#include "libcni/common/error.h"

using namespace devices::nri;

namespace {

std::vector<std::size_t> frame_sizes(std::size_t data) {
  std::string bytes;
  append_message(bytes, kPluginService, {1, Kind::kResponse, std::string(data, 'x')});
  FrameReader frames;
  frames.add(bytes);
  std::vector<std::size_t> out;
  while (const auto frame = frames.next()) out.push_back(frame->payload.size());
  CHECK_FALSE(frames.is_partial());
  return out;
}

}  // namespace

TEST_CASE("a message is a frame of at most 4096 bytes, and one with the rest") {
  CHECK(frame_sizes(0) == std::vector<std::size_t>{10});
  CHECK(frame_sizes(4086) == std::vector<std::size_t>{4096});
  CHECK(frame_sizes(4087) == std::vector<std::size_t>{4096, 1});
  CHECK(frame_sizes(3'000'000) == std::vector<std::size_t>{4096, 2'995'914});
  CHECK(frame_sizes(kMaxMessage) == std::vector<std::size_t>{4096, kMaxMessage - 4086});
}

TEST_CASE("messages are read from frames of any division") {
  std::string bytes;
  append_message(bytes, kRuntimeService, {0x01020304, Kind::kRequest, "ab"});
  CHECK(bytes == std::string("\0\0\0\2\0\0\0\14\0\0\0\2\1\2\3\4\1\0ab", 20));
  MessageReader messages;
  for (const char byte : bytes.substr(8)) {
    CHECK_FALSE(messages.next());
    messages.add({&byte, 1});
  }
  const auto message = messages.next();
  REQUIRE(message);
  CHECK(message->stream == 0x01020304);
  CHECK(message->kind == Kind::kRequest);
  CHECK(message->data == "ab");
  CHECK_FALSE(messages.is_partial());
}

TEST_CASE("a length beyond the limit is refused before its bytes have come") {
  FrameReader frames;
  frames.add(std::string_view("\0\0\0\1\0\x40\0\x0b", 8));  // 4 MiB + 11
  CHECK_THROWS_WITH_AS(frames.next(), "read a frame: its length is 4194315 bytes", cni::Error);
  MessageReader messages;
  messages.add(std::string_view("\0\x40\0\1\0\0\0\1\1\0", 10));
  CHECK_THROWS_WITH_AS(messages.next(), "read a message: its length is 4194305 bytes", cni::Error);
}

TEST_CASE("a message of an unknown type is refused") {
  MessageReader messages;
  messages.add(std::string_view("\0\0\0\0\0\0\0\1\4\0", 10));
  CHECK_THROWS_WITH_AS(messages.next(), "read a message: its type is 4", cni::Error);
}
