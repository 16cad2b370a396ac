#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcni/config/key.h"
#include "libcni/plugin/request.h"
#include "plugins/portmap/mapping.h"

namespace portmap {

enum class Backend { kNftables, kIptables };
/// "nftables", "iptables".
std::string_view name_of(Backend backend);

/// What to do with a port that is in use.
enum class OnConflict {
  kRefuse,         ///< fail where a living container or a listening socket of the node has it
  kRefuseClaimed,  ///< fail where a living container has it; a listening socket is shadowed
  kReplace,        ///< the newest claim wins
};

/// Ports that no pod may have.
struct DeniedPorts {
  std::optional<Protocol> protocol;  ///< absent: all
  std::uint16_t first = 0, last = 0;
  bool operator==(const DeniedPorts&) const = default;
  std::string str() const;  ///< as in the config: "22", "6000-6100/udp"
};

/// How the traffic is to be treated; the same for all of a network's pods.
struct Options {
  bool snat = true;       ///< masquerade what would come back to the pod unanswered
  bool masq_all = false;  ///< masquerade all sources; without snat it has no effect
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

/// The conditions as one rule has them, separated by blanks.
std::string text_of(const std::vector<std::string>& conditions);

extern const cni::Manual kManual;

/// The network config of portmap; the README's table says what each key means.
struct Conf {
  std::optional<Backend> backend;  ///< absent: what the node has, nftables first
  Options options;
  OnConflict on_conflict = OnConflict::kRefuse;
  std::vector<DeniedPorts> denied;
  std::vector<Mapping> mappings;
  bool operator==(const Conf&) const = default;

  /// \throws cni::Error(kInvalidConfig) naming the key.
  static Conf parse(const cni::Request& request);
};

/// The mappings that DEL can make out, however broken the rest of the config is.
std::vector<Mapping> readable_mappings(const cni::Request& request);

}  // namespace portmap
