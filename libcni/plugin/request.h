#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/common/attachment.h"
#include "libcni/common/version.h"
#include "libcni/config/conf.h"
#include "libcni/config/json_value.h"
#include "libcni/config/result.h"
#include "netlink/netns.h"

namespace cni {

/// The environment of one run.
using Env = std::map<std::string, std::string, std::less<>>;

/// The value of a variable; empty where it is not set.
std::string_view lookup(const Env& env, std::string_view name);

/// The environment of this process.
Env current_environment();
/// The variables for plugins: CNI_*, PATCHBAY_* and TRACEPARENT.
Env environment_for_plugins();

/// The spec's verbs, and REPAIR, RECLAIM and MIGRATE (see Repair), which only plugins that announce
/// them are asked for.
enum class Command { kAdd, kDel, kCheck, kGc, kStatus, kVersion, kRepair, kReclaim, kMigrate };
std::string_view str(Command command);

/// Everything the runtime said. A verb never looks at the environment again.
struct Request {
  Command command = Command::kVersion;
  Version version = kNewest;      ///< cniVersion of the config
  std::string network;            ///< "name" of the config
  std::string container_id;       ///< empty for GC, STATUS
  std::string ifname;             ///< empty for GC, STATUS
  std::string netns;              ///< CNI_NETNS as given; may be empty or dangling for DEL, RECLAIM
  std::string args;               ///< CNI_ARGS as given; see parse_args()
  std::vector<std::string> path;  ///< CNI_PATH, split
  Env env;  ///< as given; a delegate gets it with another CNI_COMMAND, over this process's own
  std::string input;  ///< stdin as given; a delegate gets it unchanged
  JsonValue conf;     ///< stdin, parsed; null for VERSION

  AttachmentKey key() const { return {network, container_id, ifname}; }
  Reader reader() const { return Reader(conf); }
  /// The previous plugin's result. \throws Error where it is there but cannot be read.
  std::optional<Result> prev_result() const;
  /// The same for CHECK, which the spec gives one, and for plugins that are chained.
  /// \throws Error(kInvalidConfig), with the sentence of the reference plugin, where it is missing.
  Result required_prev_result(const std::string& sentence = "Required prevResult missing",
                              const std::string& details = {}) const;
  /// GC: cni.dev/valid-attachments, or cni.dev/attachments as older runtimes spell it. null is an
  /// empty list. Nothing where neither key exists, as the reference's cnitool calls GC: then
  /// nothing is known to be stale, and nothing may be removed. \throws Error(kInvalidConfig) where
  /// an entry is malformed, so that a broken list deletes nothing.
  std::optional<std::vector<Attachment>> valid_attachments() const;

  /// Fills this in and checks all of it, in the order of the reference (which error wins is
  /// visible). in is a file descriptor.
  /// \throws Error: 4 naming every missing variable at once, 5, 6, 7, 1; what was read by then
  /// stays, so that the error can carry the config's version.
  void read(const Env& env, int in);
  /// The two steps of read(): what the environment says, and then the config, where the first one
  /// says that there is one. \throws as read().
  bool read_environment(const Env& env);
  void read_config(std::string text);
  /// The config's cniVersion where it is one that this build speaks, else the newest.
  Version stated_version() const noexcept;
};

/// The pod's namespace, CNI_NETNS. \throws Error(kInvalidNetNs) where it cannot be opened or is
/// none.
netlink::NetNs open_netns(const Request& request);
/// The same in the words of those reference plugins that do not say what they are about.
netlink::NetNs enter_netns(const Request& request);

/// For ADD, DEL, REPAIR and MIGRATE: refuses a CNI_NETNS that is this process's own network
/// namespace, so that a runtime's mistake does not reconfigure the node. CNI_NETNS_OVERRIDE=1 (or
/// true) allows it. \throws Error(kInvalidNetNs).
void require_foreign_netns(const Request& request);

}  // namespace cni
