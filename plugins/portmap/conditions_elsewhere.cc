#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "plugins/portmap/conditions.h"
#include "plugins/portmap/conf.h"

namespace portmap {

std::string_view elsewhere(const cni::Request& request) {
  if (request.command != cni::Command::kAdd && request.command != cni::Command::kRepair) return {};
  if (!request.conf->contains("conditionsV4") && !request.conf->contains("conditionsV6")) return {};
  const Conf conf = Conf::parse(request);
  const bool some = !conf.options.conditions_v4.empty() || !conf.options.conditions_v6.empty();
  return some && conf.backend != Backend::kIptables ? "portmap-nft" : "";
}

void run_nft(const std::string&) {
  throw cni::Error(cni::Code::kInternal, "this executable has no libnftables");
}

}  // namespace portmap
