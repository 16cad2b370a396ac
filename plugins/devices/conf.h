#pragma once

#include <string>

#include "libcni/config/key.h"
#include "libcni/plugin/request.h"
#include "plugins/names/state.h"

namespace devices {

struct Conf {
  std::string prefix = "net";  ///< of the names of interfaces
  bool required = false;
  unsigned timeout = 10;  ///< seconds
  std::string socket = names::kDevicesSocket;
  std::string ledger_dir = names::kDevicesLedgerDir;

  /// \throws cni::Error(kInvalidConfig) naming the key.
  static Conf parse(const cni::Request& request);
};

/// `ledgerDir` alone, for DEL and GC: the default where ADD would refuse it.
std::string ledger_dir_of(const cni::Request& request);

extern constinit const cni::Manual kManual;

}  // namespace devices
