#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "plugins/devices/agent/inventory/sysfs.h"
#include "plugins/devices/agent/stock/stock.h"

/// Devices of a pool, handed out to a container: environment, device nodes, or names of the
/// Container Device Interface, whose specs runtimes are asked for.
namespace devices {

inline constexpr const char* kNodePermissions = "rw";  ///< never "m": the node exists

/// The answer to one container's request for devices.
struct Handout {
  std::map<std::string, std::string> environment;
  std::vector<std::string> nodes;  ///< paths of character devices, the same in the container
  std::vector<std::string> cdi;    ///< fully qualified: "vendor.example/nic=0000:03:00.1-5f3a91c2"
};

/// A device in a CDI spec. Never netDevices: these are edits of a container in a namespace that all
/// containers of a pod share, so that a second container could not start.
struct CdiEdits {
  std::map<std::string, std::string> environment = {};
  std::vector<std::string> nodes = {};
};

/// "vendor.example/nic": a dot in the class, which needs CDI 0.6, is an underscore.
std::string cdi_kind(const std::string& resource);
/// The name of a device with these edits: the id and a hash, so that no name ever means something
/// else. Runtimes may keep specs in memory.
std::string cdi_name(const std::string& id, const CdiEdits& edits);
/// The file of a resource.
std::string cdi_file(const std::string& resource);

/// The spec, in the lowest version that has all of its content.
/// \param devices edits by names of cdi_name(); not empty.
std::string cdi_spec(const std::string& resource, const std::map<std::string, CdiEdits>& devices);

/// Makes the file of a resource have exactly these devices, and those that it has had and
/// `is_kept` says of by id: a container that restarts is asked for by the name that it had. The
/// file is removed if there are none, and written aside and renamed only if it changes.
/// \throws cni::Error where the file is a spec of another kind, which is not ours; netlink::Error.
void write_cdi(const std::string& dir, const std::string& resource,
               const std::map<std::string, CdiEdits>& devices,
               const std::function<bool(const std::string& id)>& is_kept);

/// Removes the files of resources that do not exist any more. A file is ours if its name is that of
/// its kind, and the name of each device in it has the hash of its content: no other program writes
/// such names. \throws netlink::Error.
void remove_other_cdi(const std::string& dir, const std::set<std::string>& resources);

/// "PCIDEVICE_VENDOR_EXAMPLE_NIC", as the SR-IOV network device plugin names it.
std::string variable_of(const std::string& resource);

/// The edits of its CDI device; only of a pool that hands devices out by CDI.
CdiEdits edits_of(const Pool& pool, const Item& item, const Sysfs& sysfs);

/// Merges all devices of one request.
Handout handout_of(const Pool& pool, const std::vector<const Item*>& items, const Sysfs& sysfs);

/// The configs that attach the device, a JSON list, for the ledger. \param before the entry's,
/// which knows the name of a link that is in a pod now; may be empty. \throws
/// cni::Error(kTryAgainLater) where that name is not known.
std::string plugins_text(const Pool& pool, const Item& item, const std::string& before);

/// The name of the link in such a list, which a name selects: "device" of host-device. Else empty.
std::string link_in(const std::string& plugins);

/// The same list with the name that the device's link has now, where a name selects it.
std::string with_link(const std::string& plugins, const std::string& name);

}  // namespace devices
