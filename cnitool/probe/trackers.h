#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cnitool/probe/drops.h"
#include "cnitool/probe/follow.h"
#include "cnitool/probe/legacy.h"
#include "netlink/types/fd.h"

/// All that follows the probes of a run in kernels, as far as this node has it.
namespace tool::probe {

class Trackers {
 public:
  /// Of these, by number, which outlive it; posts and asked as of Follower. \throws netlink::Error.
  Trackers(const Mark& mark, const std::vector<Sent>& sent,
           const std::vector<Follower::Post>& posts, std::vector<Ip> asked);
  /// What this node has not, and what is not seen therefore; a sentence each. After trails(), what
  /// was lost, too.
  const std::vector<std::string>& limits() const { return limits_; }
  /// Readable: read() has to be called, before kernels drop what they have to say.
  int fd() const { return any_.get(); }
  void read();
  /// The trails of all probes so far, by number. Empties what was read.
  std::map<std::uint16_t, Trail> trails();

  /// Whether the rules of nf_tables are followed.
  bool follows_rules() const { return follower_.has_value(); }
  /// Steps of neighbours' packets, of all probes together.
  const std::vector<Resolution>& resolutions() const;
  /// Rules of iptables-legacy that have counted packets, after trails().
  const LegacyCounts& legacy() const { return legacy_; }

 private:
  LegacyCounts legacy_;
  std::optional<Follower> follower_;
  std::optional<DropWatch> watch_;
  netlink::Fd any_;  ///< readable where one of them is
  std::vector<std::string> limits_;
};

}  // namespace tool::probe
