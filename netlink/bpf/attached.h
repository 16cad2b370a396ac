#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "netlink/types/fd.h"

/// Programs attached to a link of this thread's namespace that it keeps in another namespace, and
/// to control groups. Needs no libbpf.
namespace netlink::bpf {

/// What programs of a control group are called for: enum bpf_attach_type of linux/bpf.h.
enum class CgroupHook : std::uint32_t {
  kIngress = 0,
  kEgress = 1,
  kConnect4 = 10,
  kConnect6 = 11,
  kSend4 = 14,
  kSend6 = 15
};

/// Numbers of the programs attached to the control group (cgroup v2) that the descriptor has open,
/// and not those of the groups above it. None for a caller that may not ask. \throws Error.
std::vector<std::uint32_t> cgroup_programs(const Fd& group, CgroupHook hook);
/// The name of a loaded program, cut to 15 bytes by the kernel; empty: it has none, or is gone, or
/// the caller may not ask.
std::string program_name(std::uint32_t id);

/// Numbers of the tcx programs of both directions. None on kernels before 6.6, which have no tcx,
/// and for a caller that may not ask. \throws Error.
std::vector<std::uint32_t> tcx_programs(int link);
/// Detaches the tcx programs that are not in `kept`. \throws Error.
void detach_tcx(int link, const std::vector<std::uint32_t>& kept);

/// Detaches the BPF links by which XDP programs are attached, if their program is not in `kept`:
/// netlink detaches none of these. Needs CAP_SYS_ADMIN. \throws Error.
void detach_xdp_links(int link, const std::vector<std::uint32_t>& kept);

}  // namespace netlink::bpf
