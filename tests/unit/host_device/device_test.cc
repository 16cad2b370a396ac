#include "plugins/host-device/device.h"

#include <doctest/doctest.h>

using host_device::Conf;
using host_device::selects_hardware;
using netlink::Link;
using netlink::Mac;

namespace {

constexpr const char* kAltname = "enp193s0f0np0d1v17";

Link nic() {
  Link out{.index = 7, .name = "eth0"};
  out.alias = "ens5";
  out.permanent_mac = Mac::parse("52:54:00:00:00:01").value();
  out.device = "pci/0000:03:00.1";
  return out;
}

Conf by_device(const char* device) {
  Conf out;
  out.device = device;
  return out;
}

}  // namespace

TEST_CASE("hardware in a pod is selected by the name in its alias, and by an alternative name") {
  CHECK(selects_hardware(by_device("ens5"), nic(), {}));
  CHECK(selects_hardware(by_device(kAltname), nic(), {"other", kAltname}));
  CHECK_FALSE(selects_hardware(by_device(kAltname), nic(), {"other"}));
  CHECK_FALSE(selects_hardware(by_device("eth0"), nic(), {}));
}

TEST_CASE("a virtual link of a pod is not selected, whatever alias and names it has") {
  Link made = nic();
  made.kind = "veth";
  CHECK_FALSE(selects_hardware(by_device("ens5"), made, {"ens5", kAltname}));
  CHECK_FALSE(selects_hardware(by_device(kAltname), made, {kAltname}));
}
