#include "plugins/dhcp/protocol/packet.h"

#include <algorithm>
#include <iterator>

namespace dhcp {

namespace {

constexpr std::uint8_t kRequestOp = 1, kReplyOp = 2, kEthernet = 1;
constexpr std::uint16_t kBroadcastFlag = 0x8000;
// RFC 2131, section 2: where the fields are.
constexpr std::size_t kXidAt = 4, kSecondsAt = 8, kFlagsAt = 10, kCiaddrAt = 12, kYiaddrAt = 16,
                      kSiaddrAt = 20, kGiaddrAt = 24, kChaddrAt = 28, kSnameAt = 44, kFileAt = 108,
                      kCookieAt = 236, kOptionsAt = 240;
constexpr std::uint8_t kCookie[] = {99, 130, 83, 99};
constexpr std::size_t kMinSize = 300;
constexpr std::size_t kMaxInOption = 255;
constexpr std::size_t kIpHeader = 20, kUdpHeader = 8;
constexpr std::uint8_t kUdp = 17, kTtl = 64;

void put16(Bytes& bytes, std::size_t at, std::size_t value) {
  bytes[at] = static_cast<std::uint8_t>(value >> 8);
  bytes[at + 1] = static_cast<std::uint8_t>(value);
}

void put32(Bytes& bytes, std::size_t at, std::uint32_t value) {
  put16(bytes, at, value >> 16);
  put16(bytes, at + 2, value & 0xffff);
}

void put_ip(Bytes& bytes, std::size_t at, const Ip& ip) {
  std::copy_n(ip.data(), ip.size(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
}

std::uint16_t get16(View bytes, std::size_t at) {
  return static_cast<std::uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

std::uint32_t get32(View bytes, std::size_t at) {
  return static_cast<std::uint32_t>(get16(bytes, at)) << 16 | get16(bytes, at + 2);
}

Ip ip_at(View bytes, std::size_t at) { return Ip::from_bytes(&bytes[at], 4); }

void add_option(Bytes& out, std::uint8_t code, View value) {
  do {  // also the part of an empty one
    const View part = value.first(std::min(value.size(), kMaxInOption));
    out.push_back(code);
    out.push_back(static_cast<std::uint8_t>(part.size()));
    out.insert(out.end(), part.begin(), part.end());
    value = value.subspan(part.size());
  } while (!value.empty());
}

// Up to the end option, or to what does not fit.
void read_options(View field, Options& out) {
  while (!field.empty() && field[0] != option::kEnd) {
    if (field[0] == option::kPad) {
      field = field.subspan(1);
      continue;
    }
    if (field.size() < 2 || field.size() - 2 < field[1]) return;
    const View value = field.subspan(2, field[1]);
    Bytes& whole = out[field[0]];
    whole.insert(whole.end(), value.begin(), value.end());
    field = field.subspan(2 + value.size());
  }
}

Options options_of(View bytes) {
  constexpr std::uint8_t kInFile = 1, kInSname = 2;
  Options out;
  read_options(bytes.subspan(kOptionsAt), out);
  const auto overload = out.find(option::kOverload);
  if (overload == out.end() || overload->second.size() != 1) return out;
  const std::uint8_t where = overload->second[0];  // file is read first (RFC 2131, section 4.1)
  if ((where & kInFile) != 0) read_options(bytes.subspan(kFileAt, kCookieAt - kFileAt), out);
  if ((where & kInSname) != 0) read_options(bytes.subspan(kSnameAt, kFileAt - kSnameAt), out);
  return out;
}

// RFC 1071, of an even number of bytes and a rest.
std::uint32_t sum_of(View bytes, std::uint32_t sum = 0) {
  for (std::size_t at = 0; at + 1 < bytes.size(); at += 2) sum += get16(bytes, at);
  if (bytes.size() % 2 != 0) sum += static_cast<std::uint32_t>(bytes.back() << 8);
  return sum;
}

std::uint16_t checksum(std::uint32_t sum) {
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

// Covers the datagram and the pseudo-header: addresses, protocol, length (RFC 768).
std::uint16_t udp_checksum(View addresses, View datagram) {
  const auto size = static_cast<std::uint32_t>(datagram.size());
  return checksum(sum_of(datagram, sum_of(addresses) + kUdp + size));
}

}  // namespace

std::optional<Ip> ip_in(const Options& options, std::uint8_t code) {
  const auto found = options.find(code);
  if (found == options.end() || found->second.size() < 4) return std::nullopt;
  return ip_at(found->second, 0);
}

std::vector<Ip> ips_in(const Options& options, std::uint8_t code) {
  std::vector<Ip> out;
  const auto found = options.find(code);
  if (found == options.end()) return out;
  for (std::size_t at = 0; at + 4 <= found->second.size(); at += 4) {
    out.push_back(ip_at(found->second, at));
  }
  return out;
}

std::optional<std::uint32_t> u32_in(const Options& options, std::uint8_t code) {
  const auto found = options.find(code);
  if (found == options.end() || found->second.size() != 4) return std::nullopt;
  return get32(found->second, 0);
}

std::string text_in(const Options& options, std::uint8_t code) {
  const auto found = options.find(code);
  if (found == options.end()) return {};
  std::string out;
  for (const std::uint8_t byte : found->second) {
    if (out.size() == kMaxInOption) break;
    if (byte >= ' ' && byte < 0x7f) out += static_cast<char>(byte);
  }
  return out;
}

std::optional<MessageType> Message::type() const {
  const auto found = options.find(option::kMessageType);
  if (found == options.end() || found->second.size() != 1) return std::nullopt;
  const std::uint8_t type = found->second[0];
  if (type < std::uint8_t(MessageType::kDiscover) || type > std::uint8_t(MessageType::kInform)) {
    return std::nullopt;
  }
  return static_cast<MessageType>(type);
}

Bytes encode(const Message& message) {
  Bytes out(kOptionsAt);
  out[0] = message.reply ? kReplyOp : kRequestOp;
  out[1] = kEthernet;
  out[2] = sizeof message.chaddr.bytes;
  put32(out, kXidAt, message.xid);
  put16(out, kSecondsAt, message.seconds);
  put16(out, kFlagsAt, message.broadcast ? kBroadcastFlag : 0);
  put_ip(out, kCiaddrAt, message.ciaddr);
  put_ip(out, kYiaddrAt, message.yiaddr);
  put_ip(out, kSiaddrAt, message.siaddr);
  put_ip(out, kGiaddrAt, message.giaddr);
  std::ranges::copy(message.chaddr.bytes, out.begin() + kChaddrAt);
  std::ranges::copy(kCookie, out.begin() + kCookieAt);
  for (const auto& [code, value] : message.options) add_option(out, code, value);
  out.push_back(option::kEnd);
  out.resize(std::max(out.size(), kMinSize));
  return out;
}

std::optional<Message> decode(View bytes) {
  if (bytes.size() < kOptionsAt) return std::nullopt;
  if (bytes[0] != kRequestOp && bytes[0] != kReplyOp) return std::nullopt;
  if (bytes[1] != kEthernet || bytes[2] != sizeof(Mac::bytes)) return std::nullopt;
  if (!std::equal(std::begin(kCookie), std::end(kCookie), bytes.begin() + kCookieAt)) {
    return std::nullopt;
  }
  Message out{.reply = bytes[0] == kReplyOp,
              .xid = get32(bytes, kXidAt),
              .seconds = get16(bytes, kSecondsAt),
              .broadcast = (get16(bytes, kFlagsAt) & kBroadcastFlag) != 0,
              .ciaddr = ip_at(bytes, kCiaddrAt),
              .yiaddr = ip_at(bytes, kYiaddrAt),
              .siaddr = ip_at(bytes, kSiaddrAt),
              .giaddr = ip_at(bytes, kGiaddrAt)};
  std::copy_n(bytes.begin() + kChaddrAt, out.chaddr.bytes.size(), out.chaddr.bytes.begin());
  out.options = options_of(bytes);
  return out;
}

Bytes datagram_of(View payload, const Endpoints& ends) {
  Bytes out(kIpHeader + kUdpHeader);
  out[0] = 0x45;  // version 4, a header of 5 words
  put16(out, 2, out.size() + payload.size());
  out[8] = kTtl;
  out[9] = kUdp;
  put_ip(out, 12, ends.source);
  put_ip(out, 16, ends.destination);
  put16(out, 10, checksum(sum_of(out)));
  put16(out, kIpHeader, kClientPort);
  put16(out, kIpHeader + 2, kServerPort);
  put16(out, kIpHeader + 4, kUdpHeader + payload.size());
  out.insert(out.end(), payload.begin(), payload.end());
  const View all = out;
  const std::uint16_t sum = udp_checksum(all.subspan(12, 8), all.subspan(kIpHeader));
  put16(out, kIpHeader + 6, sum == 0 ? 0xffff : sum);  // 0 is "none"
  return out;
}

std::optional<View> payload_of(View packet, bool checksum_pending) {
  if (packet.size() < kIpHeader || packet[0] >> 4 != 4) return std::nullopt;
  const std::size_t header = std::size_t{4} * (packet[0] & 0x0f);
  const std::size_t total = get16(packet, 2);
  if (header < kIpHeader || total < header + kUdpHeader || packet.size() < total) {
    return std::nullopt;
  }
  if (packet[9] != kUdp || (get16(packet, 6) & 0x3fff) != 0) return std::nullopt;
  const View datagram = packet.subspan(header, total - header);
  const std::size_t size = get16(datagram, 4);
  if (size < kUdpHeader || size > datagram.size()) return std::nullopt;
  if (get16(datagram, 2) != kClientPort) return std::nullopt;
  const View whole = datagram.first(size);
  const bool has_sum = get16(whole, 6) != 0 && !checksum_pending;
  if (has_sum && udp_checksum(packet.subspan(12, 8), whole) != 0) return std::nullopt;
  return whole.subspan(kUdpHeader);
}

}  // namespace dhcp
