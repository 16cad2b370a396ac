#pragma once

#include <string>
#include <string_view>

#include "cnitool/doctor/node.h"
#include "cnitool/settings.h"
#include "cnitool/waiting.h"
#include "libcni/plugin/request.h"
#include "libcni/runtime/runtime.h"

namespace tool::doctor {

/// Reads all that there is to know, and changes nothing. Of plugins VERSION, STATUS, and REPAIR and
/// GC that only look are called. \param which the attachments that are looked at.
Node look_at_node(const Settings& settings, const Selection& which, const cni::Env& env,
                  Steps& steps);

// look_plugins.cc
/// The version line of a plugin of this project has it, and so the executable; others are not run
/// with options.
inline constexpr std::string_view kPatchbayMark = " plugin patchbay ";

/// All plugins that the networks and the attachments name, IPAM plugins too.
std::vector<PluginFile> programs_of(const Node& node, const cni::RuntimeOptions& options);

/// Asks STATUS of every plugin that knows it, whatever the version of its network is.
std::vector<Complaint> complaints_of(const Node& node, cni::RuntimeOptions options);

/// Asks the plugins of the attachments in the cache what repair would find; but those whose ADD may
/// go on.
std::vector<Repaired> looks_of(const Node& node, const cni::RuntimeOptions& options, Steps& steps);

/// leftovers_of() every network with a config, and of every removed one that has left its name:
/// in the cache, on something of a plugin's, or as a directory of leases.
std::vector<NetworkLeftover> all_leftovers(const Node& node, const cni::RuntimeOptions& options);

// look_suite.cc
/// Looks for `patchbay` in the folders of plugins, beside this executable and in PATH; best of this
/// version.
Suite find_suite(const std::vector<std::string>& dirs);

// look_locks.cc
/// Waits for the locks of plugins and of networks, and returns those that did not come free.
std::vector<HeldLock> held_locks(const Node& node);

// look_ports.cc
/// The hostPorts of living pods on which a socket of the node listens, too.
std::vector<TakenPort> taken_ports(const Node& node);

// look_rules.cc
/// The living pods of which the node has a route that a rule of the node takes no heed of.
std::vector<RuledAway> ruled_away(const Node& node);

// look_states.cc
/// The state files that a later release wrote, by whose owners the node has them.
std::vector<LaterFile> later_files(const Node& node);

// look_connections.cc
/// The tracked connections of each family of which the node has no default route: a node that never
/// had one has none of its pods with hosts without a route.
std::vector<netlink::nf::Flow> stranded_connections(const Node& node);

// look_places.cc
/// Sets Node::places and Node::file_systems.
void look_at_places(Node& node, const std::string& conf_dir);

// look_unfinished.cc
/// Sets AttachmentState::is_running of each attachment without a result, and refusal: the error of
/// the config and the arguments of its ADD (--validate). \param path CNI_PATH.
void look_at_unfinished(Node& node, const std::string& path, const cni::Env& env);

}  // namespace tool::doctor
