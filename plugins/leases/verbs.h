#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/collect.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"
#include "plugins/leases/conf.h"
#include "plugins/leases/store.h"

/// What the verbs of IPAM plugins with leases on the node have in common. `plugin` is the name of
/// the one that is run, for messages.
namespace leases {

/// The attachment, as leases name it.
Owner owner_of(const cni::Request& request);

/// Creates the network's directory. \throws cni::Error, which names the key.
Store create_store(const Conf& conf, const std::string& network, const Host& host);

/// Allocates one address from every set. Needs the store's lock. \throws as allocate().
std::vector<cni::Address> add(const Store& store, const Conf& conf, const Owner& owner,
                              cni::Undo& undo);
/// \throws cni::Error(kInternal) where the attachment has no lease.
void check(const cni::Request& request, const std::string& data_dir, std::string_view plugin);
/// Releases the attachment's leases. Needs no valid config and creates no directory.
void del(const cni::Request& request, std::string_view plugin);
/// Releases leases that no valid attachment has; none without a list. \throws if it is malformed.
void gc(const cni::Request& request, cni::Collect& collect, std::string_view plugin);
/// For STATUS. \throws cni::Error(kPluginUnavailable) where no lease can be written to the path.
void require_writable(std::filesystem::path path);
/// Writes the leases of the addresses in prevResult again. conf's sets say which they are.
cni::Result repair(const cni::Request& request, const Conf& conf, cni::Repair& repair,
                   std::string_view plugin);

}  // namespace leases
