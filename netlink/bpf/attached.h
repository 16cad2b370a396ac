#pragma once

#include <cstdint>
#include <vector>

#include "netlink/types/fd.h"

/// Programs attached to a link of this thread's namespace that it keeps in another namespace. Needs
/// no libbpf.
namespace netlink::bpf {

/// Numbers of the tcx programs of both directions. None on kernels before 6.6, which have no tcx,
/// and for a caller that may not ask. \throws Error.
std::vector<std::uint32_t> tcx_programs(int link);
/// Detaches the tcx programs that are not in `kept`. \throws Error.
void detach_tcx(int link, const std::vector<std::uint32_t>& kept);

/// Detaches the BPF links by which XDP programs are attached, if their program is not in `kept`:
/// netlink detaches none of these. Needs CAP_SYS_ADMIN. \throws Error.
void detach_xdp_links(int link, const std::vector<std::uint32_t>& kept);

}  // namespace netlink::bpf
