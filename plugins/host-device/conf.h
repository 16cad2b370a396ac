#pragma once

#include <optional>
#include <string>

#include "libcni/config/key.h"
#include "libcni/config/result.h"
#include "libcni/plugin/request.h"
#include "netlink/types/mac.h"

namespace host_device {

struct Conf {
  std::string device;               ///< name of the link
  std::optional<netlink::Mac> mac;  ///< `hwaddr`
  std::string kernel_path;          ///< a directory below /sys/devices
  std::string pci;                  ///< `pciBusID`
  std::string device_id;            ///< `runtimeConfig.deviceID`: of PCI or an auxiliary device
  std::string device_info;          ///< path of the device-info file; empty: none is wanted
  bool dpdk = false;                ///< where no PCI device decides it by its driver
  bool enable_dad = false;
  std::string ipam_type;
  std::optional<cni::Dns> dns;
  bool dns_from_ipam = false;
  bool ignore_default_route = false;

  /// \throws cni::Error(kInvalidConfig) naming the key.
  static Conf parse(const cni::Request& request);

  bool selects() const;
  /// For ADD and CHECK. \throws cni::Error(kInvalidConfig) where no key selects a device.
  void require_selector() const;
};

extern constinit const cni::Manual kManual;

}  // namespace host_device
