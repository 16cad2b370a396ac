#pragma once

#include <cstdint>

#include "libcni/config/key.h"
#include "libcni/plugin/request.h"
#include "plugins/leases/conf.h"

namespace host_local {

extern const cni::Manual kManual;

/// What becomes of ranges that are written as `usePodCidr`.
enum class PodCidrs : std::uint8_t { kRead, kSkip };

/// \throws cni::Error: 7 with the JSON path, 4 for CNI_ARGS, 11 where the node's pod CIDR is
/// wanted and not known yet.
leases::Conf parse(const cni::Request& request, PodCidrs pod_cidrs = PodCidrs::kRead);
/// The same where no attachment is known: ranges need not be there yet where the capability
/// ipRanges asks the runtime for them. \throws as parse().
leases::Conf parse_without_attachment(const cni::Request& request, PodCidrs pod_cidrs);

}  // namespace host_local
