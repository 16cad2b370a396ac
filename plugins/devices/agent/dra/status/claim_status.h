#pragma once

#include <chrono>
#include <exception>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kubernetes/client.h"
#include "libcni/daemon/event_loop.h"
#include "libcni/daemon/folder_watch.h"
#include "plugins/devices/agent/dra/slices/withdraw.h"
#include "plugins/devices/agent/dra/status/device_status.h"
#include "plugins/devices/agent/ledger_cache.h"
#include "plugins/devices/agent/pools/pools.h"
#include "plugins/state/ledger.h"

namespace devices::dra {

/// Writes what the ledger has of prepared claims into their status.devices, in a thread of its own
/// that takes no lock of the ledger: nothing waits for the API server. It sees by inotify what
/// Prepare, ADD, DEL and Unprepare write, whichever process they are. A status is written when it
/// differs; after a failure, and when the agent starts, the claim is read again. Claims that do not
/// exist any more, or are others of that name, are passed over.
class ClaimStatus {
 public:
  struct Times {
    std::chrono::milliseconds burst{100};  ///< changes of one ADD are written at once
    std::chrono::milliseconds first{1'000}, most{60'000};  ///< pauses after failures, doubled
    std::chrono::milliseconds refused{30'000}, most_refused{300'000};  ///< as for missing RBAC
    std::chrono::milliseconds starting{30'000};   ///< after an absence: 403 may pass soon
    std::chrono::milliseconds poll{30'000};       ///< of the ledger, without a change
    std::chrono::milliseconds verify{1'800'000};  ///< all claims are read again
  };

  /// \param ledger the folder, which exists.
  /// \throws cni::Error: kubernetes::require_safe(); netlink::Error.
  ClaimStatus(kubernetes::Access access, StatusOwner of, const std::string& ledger,
              const Times& times);
  ClaimStatus(const Dra& dra, const std::string& ledger)
      : ClaimStatus(access_of(dra), {dra.driver, dra.node}, ledger, Times()) {}
  /// Ends at once, whatever the API server does.
  ~ClaimStatus();
  ClaimStatus(const ClaimStatus&) = delete;
  ClaimStatus& operator=(const ClaimStatus&) = delete;

 private:
  /// What is to be said of a claim.
  struct Target {
    Claim claim = {};
    std::vector<Json> devices = {};  ///< none: it was unprepared
    bool is_written = false;
    int failures = 0;
    int refusals = 0;  ///< among them, by a server that was not just starting
    cni::BootTime due{0};
    std::string error = {};  ///< of the last attempt
  };
  using Targets = std::map<std::string, Target>;  ///< by UID

  void watch();
  void look();
  void verify();
  void schedule();
  void write_next();
  void write(Target& target);
  void write_once(const Target& target);
  void fail(Target& target, const std::exception& error);
  bool is_news(Target& target, const kubernetes::ApiError* answer, const std::string& error);
  void await_token();

  const StatusOwner of_;
  const Times times_;
  const Ledger ledger_;
  LedgerCache entries_{ledger_};
  cni::FolderWatch changes_;
  kubernetes::Client client_;
  Targets targets_;
  bool is_near_ = false;                              ///< a look, for a burst of changes
  int absences_ = 0;                                  ///< of the API server, one after the other
  cni::BootTime absent_at_ = -std::chrono::hours(1);  ///< when it was last
  cni::BootTime not_before_{0};                       ///< any call, while it is absent
  bool is_absence_logged_ = false;
  std::set<std::string> forbidden_;  ///< what RBAC refuses, as it was logged
  const char of_look_ = 0, of_verify_ = 0, of_write_ = 0, of_token_ = 0;  ///< owners of times
  cni::EventLoop loop_;
  std::thread thread_;
};

}  // namespace devices::dra
