#pragma once

#include <ctime>
#include <string_view>

namespace cni {

/// Whether the pod of a thing on the node lives, as far as this process sees. Of several things of
/// one attachment the last one of these counts.
enum class Life {
  kDead,    ///< nothing of the pod exists any more
  kYoung,   ///< the thing is younger than kLongestStart
  kUnseen,  ///< the pod's namespace may be hidden from this process
  kAlive,
};

/// "dead", "young", "unseen", "alive".
std::string_view str(Life life);
inline bool is_unknown(Life life) { return life == Life::kYoung || life == Life::kUnseen; }

/// A pod has its lease, and some plugins their state file, before it has an interface. Between the
/// two an IPAM plugin may wait for a DHCP server, and the kernel for duplicate addresses: the
/// kubelet's limit for one call of the runtime (runtimeRequestTimeout) is two minutes.
inline constexpr std::time_t kLongestStart = 120;  // seconds

/// Of a thing that nothing but its file tells of. A time to come is one of a clock that was set.
Life life_by_age(std::time_t modified);

}  // namespace cni
