#pragma once

#include <vector>

#include "libcni/result.h"
#include "plugins/bridge/port.h"

namespace bridge {

/// Compares the attachment with what the result says and the config asks for.
/// \throws cni::Error naming the first difference.
void check_attachment(const Wiring& wiring, const cni::Result& result);

/// The pod's addresses by prevResult; none where it is absent or unreadable.
std::vector<cni::Cidr> previous_addresses(const cni::Request& request);

}  // namespace bridge
