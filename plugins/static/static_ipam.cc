#include <algorithm>

#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/request.h"
#include "plugins/static/conf.h"

namespace static_ipam {

namespace {

// Returns the addresses, routes and DNS of the config. The plugin has no state, so there is
// nothing to undo, and nothing for DEL and GC to do. \throws cni::Error: 4, 7.
cni::Result add(const cni::Request& request, cni::Undo&) {
  Conf conf = Conf::parse(request);
  return {.ips = std::move(conf.addresses),
          .routes = std::move(conf.routes),
          .dns = std::move(conf.dns)};
}

// \throws cni::Error where prevResult lacks an address of the config, or has it with another
// prefix length or gateway; 4, 7.
void check(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  const cni::Result previous = request.required_prev_result();
  for (const cni::Address& wanted : conf.addresses) {
    const bool there = std::ranges::any_of(previous.ips, [&wanted](const cni::Address& ip) {
      return ip.cidr == wanted.cidr && (!wanted.gateway || ip.gateway == wanted.gateway);
    });
    if (there) continue;
    throw cni::Error(cni::Code::kInternal,
                     cni::cat("static: Failed to match addr ", wanted.cidr.ip.str(),
                              " on interface ", request.ifname),
                     cni::cat("prevResult has no such address",
                              wanted.gateway ? " with gateway " + wanted.gateway->str() : ""));
  }
}

// \throws cni::Error(kInvalidConfig) for a config that ADD would reject.
void status(const cni::Request& request) { Conf::parse(request); }

void validate(const cni::Request& request) { Conf::parse(request); }

}  // namespace

// DEL and GC are left out: they succeed, whatever the config.
extern constinit const cni::Plugin kPlugin{
    .name = "static",
    .verbs = {.add = add, .check = check, .status = status, .validate = validate},
    .manual = &kManual,
    .loading = ""};

}  // namespace static_ipam
