#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcni/config/key.h"
#include "libcni/plugin/request.h"
#include "plugins/portmap/mapping.h"

namespace portmap {

enum class BackendName { kNftables, kIptables };
/// "nftables", "iptables".
std::string_view name_of(BackendName backend);

/// ADD's reaction to a port conflict.
enum class OnConflict {
  kRefuse,         ///< fails if a container or a listening socket of the node has the port
  kRefuseClaimed,  ///< fails if a container has it; redirects traffic of a socket
  kReplace,        ///< the last ADD owns the port
};

/// An entry of deniedHostPorts: host ports that no pod may use.
struct DeniedPorts {
  std::optional<Protocol> protocol;  ///< absent: all
  std::uint16_t first = 0, last = 0;
  bool operator==(const DeniedPorts&) const = default;
  std::string str() const;  ///< as in the config: "22", "6000-6100/udp"
};

/// The keys that decide the rules; the same for all pods of a network.
struct Options {
  bool snat = true;       ///< masquerade traffic that the pod could not answer otherwise
  bool masq_all = false;  ///< masquerade all sources; no effect without snat
  unsigned mark_bit = 13;
  std::string external_set_mark_chain;  ///< iptables only
  std::vector<std::string> conditions_v4, conditions_v6;
  const std::vector<std::string>& conditions(Family family) const {
    return family == Family::kIpv4 ? conditions_v4 : conditions_v6;
  }
  /// "conditionsV4: 'ip saddr 192.0.2.0/24'": for messages.
  std::string describe_conditions(Family family) const;
  bool has_conditions() const { return !conditions_v4.empty() || !conditions_v6.empty(); }
  bool operator==(const Options&) const = default;
};

/// The words of the conditions, separated by blanks.
std::string text_of(const std::vector<std::string>& conditions);

extern const cni::Manual kManual;

/// The network config of portmap.
struct Conf {
  std::optional<BackendName> backend;  ///< absent: detected, nftables first
  Options options;
  OnConflict on_conflict = OnConflict::kRefuse;
  std::vector<DeniedPorts> denied;
  std::vector<Mapping> mappings;
  bool operator==(const Conf&) const = default;

  /// \throws cni::Error(kInvalidConfig) naming the key.
  static Conf parse(const cni::Request& request);
};

/// The valid entries of portMappings, for DEL: other keys may be invalid.
std::vector<Mapping> readable_mappings(const cni::Request& request);

}  // namespace portmap
