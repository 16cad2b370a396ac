#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The two lower layers of NRI on bytes: the multiplexer, whose frames carry several connections
/// over one socket, and ttrpc, whose messages are in the frames. Sources: pkg/net/multiplex of
/// github.com/containerd/nri, the protocol of github.com/containerd/ttrpc.
namespace devices::nri {

/// Connection IDs of the multiplexer. In the first one the runtime calls us, in the second one we
/// call the runtime; each has stream IDs of its own.
inline constexpr std::uint32_t kPluginService = 1, kRuntimeService = 2;
/// Bytes of a message's data, in ttrpc; and of its header.
inline constexpr std::size_t kMaxMessage = std::size_t{4} << 20, kMessageHeader = 10;
/// Bytes of the first frame of a message. The runtime reads each frame whole into a buffer, of 4096
/// bytes for a message of which it does not know the length yet, and ends the connection where that
/// is too small. It does so, too, where more than 256 frames are unread: a message has two at most.
inline constexpr std::size_t kFirstFrame = 4096;

/// Bytes that come in pieces and are taken from the front.
class Buffer {
 public:
  void add(std::string_view bytes);
  std::string_view view() const { return std::string_view(bytes_).substr(begin_); }
  void drop(std::size_t count);

 private:
  std::string bytes_;
  std::size_t begin_ = 0;
};

struct Frame {
  std::uint32_t connection = 0;
  std::string payload;
};

/// Frames of a stream of bytes.
class FrameReader {
 public:
  void add(std::string_view bytes) { bytes_.add(bytes); }
  /// Empty: more bytes are needed. \throws cni::Error for a frame that is longer than any message.
  std::optional<Frame> next();
  /// Whether a part of a frame has come.
  bool is_partial() const { return !bytes_.view().empty(); }

 private:
  Buffer bytes_;
};

enum class Kind : std::uint8_t { kRequest = 1, kResponse = 2, kData = 3 };

struct Message {
  std::uint32_t stream = 0;  ///< ID of the call, which its caller has chosen
  Kind kind = Kind::kRequest;
  std::string data;
};

/// Messages of one connection.
class MessageReader {
 public:
  void add(std::string_view payload) { bytes_.add(payload); }
  /// Empty: more bytes are needed. \throws cni::Error for a message that is too long or of an
  /// unknown kind.
  std::optional<Message> next();
  /// Whether a part of a message has come.
  bool is_partial() const { return !bytes_.view().empty(); }

 private:
  Buffer bytes_;
};

/// Appends the frames of a message: one of at most kFirstFrame bytes, and one with the rest. Its
/// data has at most kMaxMessage bytes.
void append_message(std::string& out, std::uint32_t connection, const Message& message);

}  // namespace devices::nri
