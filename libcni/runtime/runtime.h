#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/common/error.h"
#include "libcni/config/json_value.h"
#include "libcni/config/result.h"
#include "libcni/plugin/collect.h"
#include "libcni/plugin/repair.h"
#include "libcni/runtime/cache.h"
#include "libcni/runtime/conflist.h"
#include "libcni/runtime/options.h"

namespace cni {

/// One interface of one container, and what there is to say about it.
struct Target {
  std::string container_id;
  std::string netns;  ///< the path of its network namespace; DEL may come without
  std::string ifname = "eth0";
  Args args = {};               ///< CNI_ARGS
  JsonValue capabilities = {};  ///< capability arguments by name, an object; null: none
};

/// The runtime's half of the contract: calls the plugins of a network in the order and with the
/// input that the spec (1.1, section 3) says. Holds no state but the results cache on disk, so
/// threads and processes may use it at once; see OperationLock. SIGPIPE must be ignored.
///
/// Errors carry a plugin's own code, and its type in the message:
/// `plugin type="bridge" failed (add): ...`. Every operation throws Error: 7 for a plugin that is
/// not there, 11 where it took too long, was stopped or has to wait too long for another operation,
/// 999 for what the system refuses.
class Runtime {
 public:
  explicit Runtime(RuntimeOptions options) : options_(std::move(options)) {}

  /// ADD of every plugin in order, each with the result of the one before. Gives the last result,
  /// as it was printed. Before the first plugin is called the attachment is noted in the cache, so
  /// that DEL, GC and the next ADD know of it whatever happens to this process. Undone when it
  /// fails, unless the interface was there before: DEL would take it from whoever has it.
  nlohmann::ordered_json add(const NetworkList& list, const Target& target) const;

  /// DEL of every plugin in reverse order, with the final result of ADD. Arguments that target has
  /// none of are those of ADD. Stops at the first failure, as what a plugin could not undo may be
  /// what the ones before it stand on.
  void del(const NetworkList& list, const Target& target) const;

  /// CHECK of every plugin in order, from 0.4.0 on; nothing with disableCheck.
  void check(const NetworkList& list, const Target& target) const;

  /// Removes what is no interface of valid: DEL for every cached attachment of the network, then,
  /// from 1.1.0 on, GC of every plugin. Goes on past failures and throws them all at the end.
  /// Attachments made while it waited for the lock stay, or since the cache was as in seen, from
  /// which valid was made. Nothing with disableGC.
  /// \throws Error before anything is removed where valid has something malformed in it.
  void gc(const NetworkList& list, const std::vector<Attachment>& valid,
          const std::optional<Cache::Listing>& seen = std::nullopt) const;

  struct Found {
    std::string plugin;  ///< its type
    Leftover leftover;
  };
  /// What a look found dead.
  struct Dead {
    std::vector<CachedAttachment> attachments;
    std::vector<Cache::Broken> broken;  ///< entries of such attachments
    std::vector<std::string> tags;      ///< of things without an entry
    /// Asked again right before the DEL.
    std::function<bool(const CachedAttachment&)> is_dead;
  };
  struct Removal {
    std::vector<AttachmentKey> attachments;
    std::vector<Found> things;
    std::optional<Error> error;  ///< what could not be removed
  };
  /// Removes these and nothing else: DEL for an attachment whose entry is still that one, then,
  /// from 1.1.0 on, GC of the plugins that remove what is named, and look again before. What was
  /// added since, by whatever runtime, stays. Goes on past failures. Nothing with disableGC.
  Removal remove(const NetworkList& list, const Dead& dead) const;

  /// The objects that GC would remove if valid and all cached attachments were valid, but those
  /// whose entry is broken: the answer of GC of the plugins that announce that they can look,
  /// whatever cniVersion and disableGC say.
  std::vector<Found> leftovers(const NetworkList& list, const std::vector<Attachment>& valid) const;

  /// STATUS of every plugin, from 1.1.0 on; goes on past failures. The code is the first failure's.
  void status(const NetworkList& list) const;

  struct Difference {
    std::string plugin;  ///< its type
    std::string what;
  };
  struct RepairReport {
    std::vector<Difference> found;    ///< what was wrong and is whole again, or would be
    std::vector<Difference> foreign;  ///< what CHECK of plugins says that cannot be repaired
    std::optional<Error> error;       ///< what could not be repaired, or is not right all the same
    bool ok() const { return foreign.empty() && !error; }
  };
  /// Makes again what ADD made on the node and others removed, with what the cache has of that ADD:
  /// REPAIR of the plugins that have it, in order, CHECK of the others and at the end of all. No
  /// plugin gets an ADD. Goes on after a plugin that fails while the pod has the interface.
  /// only_look: nothing is changed. Nothing where the cache has no finished ADD (any more). Where
  /// the pod has no such interface, that is the error, and reclaim() the rest.
  std::optional<RepairReport> repair(const NetworkList& list, const Attachment& whose,
                                     bool only_look = false) const;

  /// Gives the node back what ADD took from it, as a device, of an attachment whose pod or
  /// interface does not exist, or whose ADD was interrupted: RECLAIM of the plugins that have it.
  /// The pod's links and addresses and the cache stay: those are for DEL. Empty if the cache has no
  /// such attachment.
  std::optional<RepairReport> reclaim(const NetworkList& list, const Attachment& whose,
                                      bool only_look = false) const;

  /// Gives what an attachment has on the node the other form, that of these plugins or that of the
  /// reference plugins: MIGRATE of the plugins that have it, and CHECK at the end. foreign: plugins
  /// that are not of this project, of which nothing is changed. Empty if the cache has no finished
  /// ADD.
  std::optional<RepairReport> migrate(const NetworkList& list, const Attachment& whose, Form form,
                                      bool only_look = false) const;

  /// What the node shows of an attachment that the cache does not have.
  struct Shown {
    Target target;
    Result result;                ///< its interface, and the addresses of that
    std::function<bool()> lives;  ///< asked again after leases were written
  };
  /// REPAIR of IPAM plugins, the plugins of that list, for such an attachment: they write its
  /// leases again. Those without the verb are passed over. Empty if the cache has the attachment by
  /// now, or if its pod ended meanwhile, for which they get a DEL.
  std::optional<RepairReport> restore(const NetworkList& ipam, const Shown& shown,
                                      bool only_look = false) const;

  struct PluginVersions {
    std::string type, file;
    std::vector<std::string> versions;  ///< as it printed them
    std::vector<std::string> verbs;     ///< that it has beyond the spec: REPAIR
  };
  /// VERSION of every plugin in order.
  std::vector<PluginVersions> versions(const NetworkList& list) const;

 private:
  RuntimeOptions options_;
};

}  // namespace cni
