#pragma once

#include <deviceplugin.pb.h>

#include <functional>
#include <string>

/// Whether requests of the kubelet may be worked on: before any of it changes something. Each
/// function returns the error, a sentence for the kubelet's log; empty: none.
namespace devices {

/// The resource that is asked, and whether it has a device.
struct Offered {
  const std::string& resource;
  std::function<bool(const std::string& id)> has;
};

/// Each id exists, and is listed once for a container.
std::string wrong_in(const v1beta1::AllocateRequest& request, const Offered& offered);
std::string wrong_in(const v1beta1::PreStartContainerRequest& request, const Offered& offered);
/// Ids that do not exist are allowed: the kubelet may know a device longer than the node has it.
std::string wrong_in(const v1beta1::PreferredAllocationRequest& request);

}  // namespace devices
