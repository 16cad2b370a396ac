#include "plugins/devices/agent/nri/frames.h"

#include <algorithm>

#include "libcni/common/error.h"

namespace devices::nri {

namespace {

using cni::cat;

constexpr std::size_t kFrameHeader = 8;
constexpr std::size_t kMaxIdle = 65536;  // bytes that an empty buffer keeps

std::uint32_t number_at(std::string_view bytes, std::size_t at) {
  std::uint32_t out = 0;
  for (const char byte : bytes.substr(at, 4)) out = out << 8 | static_cast<unsigned char>(byte);
  return out;
}

void append_number(std::string& out, std::size_t number) {
  for (const unsigned shift : {24U, 16U, 8U, 0U}) out += static_cast<char>(number >> shift & 0xff);
}

}  // namespace

void Buffer::add(std::string_view bytes) {
  bytes_.erase(0, begin_);
  begin_ = 0;
  bytes_ += bytes;
}

// A large message is rare, and its memory is not kept for the next one.
void Buffer::drop(std::size_t count) {
  begin_ += count;
  if (begin_ < bytes_.size()) return;
  begin_ = 0;
  bytes_.clear();
  if (bytes_.capacity() > kMaxIdle) std::string().swap(bytes_);
}

std::optional<Frame> FrameReader::next() {
  const std::string_view bytes = bytes_.view();
  if (bytes.size() < kFrameHeader) return std::nullopt;
  const std::size_t size = number_at(bytes, 4);
  if (size > kMaxMessage + kMessageHeader) {
    throw cni::Error(cni::Code::kDecodingFailure,
                     cat("read a frame: its length is ", size, " bytes"));
  }
  if (bytes.size() < kFrameHeader + size) return std::nullopt;
  Frame out{number_at(bytes, 0), std::string(bytes.substr(kFrameHeader, size))};
  bytes_.drop(kFrameHeader + size);
  return out;
}

std::optional<Message> MessageReader::next() {
  const std::string_view bytes = bytes_.view();
  if (bytes.size() < kMessageHeader) return std::nullopt;
  const std::size_t size = number_at(bytes, 0);
  const auto kind = static_cast<unsigned char>(bytes[8]);
  if (size > kMaxMessage) {
    throw cni::Error(cni::Code::kDecodingFailure,
                     cat("read a message: its length is ", size, " bytes"));
  }
  if (kind < 1 || kind > 3) {
    throw cni::Error(cni::Code::kDecodingFailure,
                     cat("read a message: its type is ", unsigned{kind}));
  }
  if (bytes.size() < kMessageHeader + size) return std::nullopt;
  Message out{number_at(bytes, 4), static_cast<Kind>(kind),
              std::string(bytes.substr(kMessageHeader, size))};
  bytes_.drop(kMessageHeader + size);
  return out;
}

void append_message(std::string& out, std::uint32_t connection, const Message& message) {
  std::string bytes;
  bytes.reserve(kMessageHeader + message.data.size());
  append_number(bytes, message.data.size());
  append_number(bytes, message.stream);
  bytes += static_cast<char>(message.kind);
  bytes += '\0';  // flags: none in calls without streams
  bytes += message.data;
  const std::string_view all = bytes;
  const std::size_t first = std::min(all.size(), kFirstFrame);
  for (const std::string_view part : {all.substr(0, first), all.substr(first)}) {
    if (part.empty()) continue;  // an empty frame ends the connection
    append_number(out, connection);
    append_number(out, part.size());
    out += part;
  }
}

}  // namespace devices::nri
