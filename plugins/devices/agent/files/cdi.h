#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "plugins/devices/agent/core.h"

/// Specs of the Container Device Interface: character devices and environment of devices, for
/// runtimes that are asked for them by name. Never netDevices: these are edits of a container in a
/// namespace that all containers of a pod share, so that a second container could not start.
namespace devices {

/// What a container with the device gets.
struct CdiEdits {
  std::map<std::string, std::string> environment = {};
  std::vector<Node> nodes = {};
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

}  // namespace devices
