#pragma once

#include <vector>

#include "libcni/config/key.h"
#include "libcni/config/result.h"
#include "libcni/plugin/request.h"

namespace static_ipam {

extern const cni::Manual kManual;

/// The config after the order of precedence is applied.
struct Conf {
  /// runtimeConfig.ips, else args.cni.ips, else ipam.addresses and CNI_ARGS together.
  std::vector<cni::Address> addresses;
  std::vector<cni::Route> routes;
  cni::Dns dns;

  /// \throws cni::Error: 7 with the JSON path, 4 for CNI_ARGS.
  static Conf parse(const cni::Request& request);
};

}  // namespace static_ipam
