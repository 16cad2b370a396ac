#pragma once

#include <string>
#include <vector>

#include "plugins/devices/agent/core.h"
#include "plugins/devices/agent/files/cdi.h"
#include "plugins/devices/agent/inventory/sysfs.h"
#include "plugins/devices/agent/stock/stock.h"

/// What a container gets with devices of a pool.
namespace devices {

/// "PCIDEVICE_VENDOR_EXAMPLE_NIC", as the SR-IOV network device plugin names it.
std::string variable_of(const std::string& resource);

/// The device nodes of one device: those of its driver, its RDMA nodes, those of the pool.
std::vector<Node> nodes_of(const Pool& pool, const Item& item, const Sysfs& sysfs);

/// The edits of its CDI device; only of a pool that hands devices out by CDI.
CdiEdits edits_of(const Pool& pool, const Item& item, const Sysfs& sysfs);

/// Of all devices of one request.
Handout handout_of(const Pool& pool, const std::vector<const Item*>& items, const Sysfs& sysfs);

/// The configs that attach the device, a JSON list, for the ledger. \param before the entry's,
/// which knows the name of a link that is in a pod now; may be empty. \throws
/// cni::Error(kTryAgainLater) where that name is not known.
std::string plugins_text(const Pool& pool, const Item& item, const std::string& before);

/// The same list with the name that the device's link has now, where a name selects it.
std::string with_link(const std::string& plugins, const std::string& name);

}  // namespace devices
