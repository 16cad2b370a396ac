#pragma once

#include <string>

#include "libcni/config/key.h"
#include "libcni/plugin/request.h"
#include "plugins/dhcp/protocol/packet.h"
#include "plugins/names/state.h"

namespace dhcp {

/// The config of ADD, CHECK and STATUS.
struct Conf {
  std::string socket_path = names::kDhcpSocket;
  Options provided = {};
  Bytes wanted = {};
  unsigned priority = 0;  ///< metric of the routes; 0 is "not stated"
  unsigned timeout = 60;  ///< seconds
  bool probe = false;
  bool dns = false;  ///< whether the result has it

  /// \throws cni::Error(kInvalidConfig).
  static Conf parse(const cni::Request& request);
};

/// The daemon's socket, the only key that DEL and GC need; the default if the key cannot be read.
std::string socket_path_of(const cni::Request& request);

/// Option 61 of an attachment as the reference plugins send it: a zero, and ID/NETWORK/IFNAME, at
/// most 254 bytes of it.
Bytes client_id_of(const cni::Request& request);

extern const cni::Manual kManual;

}  // namespace dhcp
