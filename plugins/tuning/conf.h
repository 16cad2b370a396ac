#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcni/config/key.h"
#include "libcni/plugin/request.h"
#include "netlink/types/mac.h"
#include "plugins/names/state.h"

namespace tuning {

/// A setting as the config has it.
struct Sysctl {
  std::string key, value;
  bool operator==(const Sysctl&) const = default;
};

extern const cni::Manual kManual;

inline constexpr const char* kDataDir = names::kTuningStateDir;

/// The network config of the tuning plugin; the README's table says what each key means.
struct Conf {
  std::vector<Sysctl> sysctls = {};  ///< in the order in which they are set, no key twice
  std::optional<netlink::Mac> mac = {};
  bool promiscuous = false;
  unsigned mtu = 0;  ///< bytes; 0 leaves it
  bool mtu_both_ends = true;
  std::optional<bool> all_multicast = {};
  std::optional<std::uint32_t> tx_queue_length = {};  ///< packets
  std::string data_dir = kDataDir;

  bool changes_link() const;
  bool operator==(const Conf&) const = default;

  /// \throws cni::Error: kInvalidConfig naming the key; kInvalidEnvironment for CNI_ARGS.
  static Conf parse(const cni::Request& request);
};

/// `dataDir` for DEL and GC, which go on with the default where the config has none that can be
/// used.
std::string data_dir_of(const cni::Request& request);

}  // namespace tuning
