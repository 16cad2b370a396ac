#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plugins/devices/agent/core.h"
#include "plugins/devices/agent/dra/claim.h"

/// NodePrepareResources and NodeUnprepareResources, whichever version of the API asks.
namespace devices::dra {

/// The deadline of the kubelet is 45 s.
inline constexpr std::chrono::seconds kAnswerWithin{40};
/// Of them for the lock of the ledger, which plugins hold for milliseconds.
inline constexpr std::chrono::seconds kLedgerWithin{30};
/// For the API server, where the ledger has the claim already.
inline constexpr std::chrono::seconds kAgainWithin{5};
inline constexpr std::size_t kMaxClaims = 256;  ///< of a request

using Clock = std::chrono::steady_clock;

/// What a claim's answer says.
struct Prepared {
  struct Device {
    std::string request, name, share;
    std::vector<std::string> cdi;
    bool operator==(const Device&) const = default;
  };
  std::vector<Device> devices = {};
  std::string error = {};
};

struct NamedClaim {
  std::string uid, space, name;
};

/// NodePrepareResources of the kubelet. Nothing is prepared where it has hung up: the next one may
/// have the claim unprepared already, and then nobody does so again.
struct Call {
  Clock::time_point until;
  std::function<bool()> has_hung_up;
};

/// Whether the claim that an API server does not know is that which is asked for: it says so.
class NoSuchClaim : public std::exception {};

/// The ResourceClaim as the API server has it. \throws NoSuchClaim where it has none of that name,
/// other exceptions where it cannot be asked within the time.
using Source =
    std::function<nlohmann::json(const NamedClaim& claim, std::chrono::milliseconds most)>;

struct Means {
  std::string driver, node;
  std::string plugin_dir;  ///< whose plugins judge parameters
  Source source;
};

/// Thread-safe.
class Preparer {
 public:
  Preparer(Core& core, Means means) : core_(core), means_(std::move(means)) {}

  const std::string& node() const { return means_.node; }
  /// Each claim has its answer until then, if only that the time is up.
  Prepared prepare(const NamedClaim& claim, const Call& call);
  /// Asks the ledger alone. The error, or nothing.
  std::string unprepare(const NamedClaim& claim, Clock::time_point until);

 private:
  std::vector<Entry> entries_of(const NamedClaim& claim, const Call& call);
  Order order_of(const Allocation& allocation) const;
  void end_rivals(const Order& order, Clock::time_point until);
  bool is_gone(const NamedClaim& claim, Clock::time_point until) const;

  Core& core_;
  const Means means_;
};

}  // namespace devices::dra
