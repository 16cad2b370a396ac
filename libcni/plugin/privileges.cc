#include "libcni/plugin/privileges.h"

#include "libcni/common/error.h"

namespace cni {

namespace {

using netlink::Capability;

void require(std::string_view what, std::initializer_list<Capability> wanted, Code code) {
  const std::string missing = netlink::missing_of(wanted);
  if (missing.empty()) return;
  throw Error(code, cat(what, ": operation not permitted: this process lacks ", missing));
}

}  // namespace

void require_capabilities(const Request& request, std::initializer_list<Capability> wanted) {
  // STATUS says whether an ADD would succeed.
  if (request.command == Command::kStatus)
    return require("run ADD", wanted, Code::kPluginUnavailable);
  require(cat("run ", str(request.command)), wanted, Code::kInternal);
}

void require_capabilities(std::string_view what, std::initializer_list<Capability> wanted) {
  require(what, wanted, Code::kInternal);
}

}  // namespace cni
