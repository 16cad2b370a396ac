#pragma once

#include <vector>

#include "cnitool/probe/verdicts.h"

/// Default routes in pods that are not those of their results, and routes that lead no packet far.
namespace tool::probe {

/// Appends what is wrong in pods that are asked about and that live, whatever plugin has made them,
/// where no failed question has a cause. A route by any interface that another result of the pod
/// has is right. \throws netlink::Error.
void add_strayed_routes(const std::vector<Subject>& subjects, const std::vector<bool>& asked,
                        const Verdicts& verdicts, std::vector<Verdicts::Known>& out);

}  // namespace tool::probe
