#pragma once

#include <cstddef>
#include <span>

namespace netlink::bpf::drop_program {

/// The object file of packet_drops.bpf.c, which the build embeds; empty without eBPF.
std::span<const std::byte> object() noexcept;

}  // namespace netlink::bpf::drop_program
