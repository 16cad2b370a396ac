#include "netlink/wire.h"

#include <arpa/inet.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "netlink/types/error.h"

namespace netlink {

namespace {

constexpr std::uint32_t kLiveFrames = 1U << 1;  // BPF_F_TEST_XDP_LIVE_FRAMES
constexpr std::size_t kMost = 2048;

std::uint64_t address_of(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

long call_bpf(int command, bpf_attr& attributes) {
  return ::syscall(SYS_bpf, command, &attributes, sizeof attributes);
}

// The XDP program that passes all: r0 = XDP_PASS; exit.
Fd load_passing_program() {
  bpf_insn code[2]{};
  code[0].code = BPF_ALU64 | BPF_MOV | BPF_K;
  code[0].imm = XDP_PASS;
  code[1].code = BPF_JMP | BPF_EXIT;
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.prog_type = BPF_PROG_TYPE_XDP;
  attributes.insns = address_of(code);
  attributes.insn_cnt = std::size(code);
  attributes.license = address_of("Apache-2.0");
  Fd out(static_cast<int>(call_bpf(BPF_PROG_LOAD, attributes)));
  if (!out) throw Error("load a program that hands packets to a link", errno);
  return out;
}

constexpr std::uint16_t kLoadWord = BPF_LD | BPF_W | BPF_ABS,
                        kJumpIfEqual = BPF_JMP | BPF_JEQ | BPF_K;

// Accepts what is sent to the host: the family's number is in the first four bits of a packet.
std::vector<sock_filter> filter_for(const Ip& host) {
  constexpr std::uint32_t kTypeOfPacket = static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE);
  std::vector<sock_filter> out{
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kTypeOfPacket),
      BPF_JUMP(kJumpIfEqual, PACKET_OUTGOING, 1, 0),
      BPF_STMT(BPF_RET, 0),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
      BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4),
      BPF_JUMP(kJumpIfEqual, host.is_v4() ? 4U : 6U, 1, 0),
      BPF_STMT(BPF_RET, 0),
  };
  const std::uint32_t begin = host.is_v4() ? 16 : 24;
  for (std::uint32_t at = 0; at < host.size(); at += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, host.data() + at, sizeof word);
    out.push_back(BPF_STMT(kLoadWord, begin + at));
    out.push_back(BPF_JUMP(kJumpIfEqual, ntohl(word), 1, 0));
    out.push_back(BPF_STMT(BPF_RET, 0));
  }
  out.push_back(BPF_STMT(BPF_RET, kMost));
  return out;
}

Fd open_outgoing(int link, const Ip& host) {
  Fd out(::socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!out) throw Error("open a packet socket", errno);
  std::vector<sock_filter> code = filter_for(host);
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  sockaddr_ll at{};
  at.sll_family = AF_PACKET;
  at.sll_protocol = htons(ETH_P_ALL);  // no other one sees what is sent
  at.sll_ifindex = link;
  if (::setsockopt(out.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0 ||
      ::bind(out.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
    throw Error("read what a link sends", errno);
  }
  return out;
}

}  // namespace

Wire::Wire(int link, const Ip& host)
    : link_(link),
      program_(load_passing_program()),
      sent_(open_outgoing(link, host)),
      buffer_(kMost) {}

int Wire::receive(View frame) {
  xdp_md context{};
  context.data_end = static_cast<std::uint32_t>(frame.size());
  context.ingress_ifindex = static_cast<std::uint32_t>(link_);
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.test.prog_fd = static_cast<std::uint32_t>(program_.get());
  attributes.test.data_in = address_of(frame.data());
  attributes.test.data_size_in = static_cast<std::uint32_t>(frame.size());
  attributes.test.ctx_in = address_of(&context);
  attributes.test.ctx_size_in = sizeof context;
  attributes.test.repeat = 1;
  attributes.test.flags = kLiveFrames;
  attributes.test.batch_size = 1;
  return call_bpf(BPF_PROG_TEST_RUN, attributes) < 0 ? errno : 0;
}

std::optional<View> Wire::take_sent() {
  const auto got = ::recv(sent_.get(), buffer_.data(), buffer_.size(), 0);
  if (got <= 0) return std::nullopt;
  return View(buffer_.data(), static_cast<std::size_t>(got));
}

}  // namespace netlink
