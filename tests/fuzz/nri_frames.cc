// What a container runtime sends by NRI, as bytes of the multiplexer. The first byte is the number
// of bytes of each piece in which they come, and a message is made of the others, too.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "plugins/devices/agent/nri/frames.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace devices::nri;
using fuzz::require;

struct Read {
  std::vector<std::uint32_t> connections;
  std::vector<std::size_t> sizes;  // of frames
  std::vector<Message> messages;   // of all connections, as if they were one
};

Read read(std::string_view bytes, std::size_t piece) {
  Read out;
  FrameReader frames;
  MessageReader messages;
  while (!bytes.empty()) {
    frames.add(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (const auto frame = frames.next()) {
      require(frame->payload.size() <= kMaxMessage + kMessageHeader, "a frame has a limit");
      out.connections.push_back(frame->connection);
      out.sizes.push_back(frame->payload.size());
      messages.add(frame->payload);
      while (auto message = messages.next()) out.messages.push_back(*std::move(message));
    }
  }
  return out;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes = fuzz::text_of(data, size);
  if (bytes.empty()) return 0;
  const std::size_t piece = std::size_t{1} + static_cast<unsigned char>(bytes[0]);
  bytes.remove_prefix(1);
  fuzz::accepts([&] {
    const Read whole = read(bytes, bytes.size() + 1);
    const Read parts = read(bytes, piece);
    require(whole.sizes == parts.sizes && whole.messages.size() == parts.messages.size(),
            "what is read does not depend on the pieces");
  });
  const Message message{static_cast<std::uint32_t>(piece), Kind::kResponse, std::string(bytes)};
  std::string sent;
  append_message(sent, kPluginService, message);
  const Read again = read(sent, piece);
  require(again.messages.size() == 1 && again.messages[0].data == message.data &&
              again.messages[0].stream == message.stream && again.messages[0].kind == message.kind,
          "a message is read as it was written");
  require(again.sizes.size() <= 2 && again.sizes[0] <= kFirstFrame,
          "a message is one frame of 4096 bytes at most, and one with the rest");
  require(!std::ranges::count(again.sizes, std::size_t{0}), "no frame is empty");
  require(std::ranges::count(again.connections, kPluginService) == std::ssize(again.connections),
          "all frames are of the connection");
  return 0;
}
