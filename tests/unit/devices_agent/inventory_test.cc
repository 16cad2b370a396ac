#include "plugins/devices/agent/inventory/inventory.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/surroundings.h"

using devices::Device;
using devices::NodeLinks;
using netlink::Link;

namespace {

namespace fs = std::filesystem;

Link link(int index, const char* name, const char* kind = "") {
  Link out{.index = index, .name = name, .kind = kind};
  out.up = true;
  out.oper_state = netlink::OperState::kUp;
  return out;
}

netlink::Mac mac(const char* text) { return netlink::Mac::parse(text).value(); }

const Device& find(const std::vector<Device>& all, const std::string& id) {
  for (const Device& one : all) {
    if (one.id == id) return one;
  }
  FAIL("no device " << id);
  throw 0;
}

// A sysfs with devices of the PCI bus.
class FakeSysfs {
 public:
  std::string root() const { return folder_.path(); }

  void write(const std::string& path, const std::string& text) const {
    const fs::path file = fs::path(root()) / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }
  void point(const std::string& path, const std::string& target) const {
    const fs::path from = fs::path(root()) / path, to = fs::path(root()) / target;
    fs::create_directories(from.parent_path());
    fs::create_directories(to);
    fs::create_directory_symlink(to, from);
  }
  void add_nic(const std::string& address, const std::string& driver, const std::string& link) {
    const std::string at = "bus/pci/devices/" + address;
    write(at + "/class", "0x020000");
    write(at + "/vendor", "0x8086");
    write(at + "/device", "0x154c");
    write(at + "/numa_node", "1");
    point(at + "/driver", "bus/pci/drivers/" + driver);
    if (!link.empty()) fs::create_directories(fs::path(root()) / at / "net" / link);
  }

 private:
  surroundings::Folder folder_;
};

}  // namespace

TEST_CASE("hardware has the PCI address as its id, other links their permanent MAC or their name") {
  FakeSysfs sysfs;
  sysfs.add_nic("0000:03:00.0", "iavf", "eth1");
  sysfs.write("bus/pci/devices/0000:00:1f.0/class", "0x060100");
  NodeLinks node{.links = {link(2, "eth1"), link(3, "usb0"), link(4, "veth0", "veth")}};
  node.links[1].permanent_mac = mac("52:54:00:00:00:07");
  const auto all = devices::inventory(node, devices::Sysfs(sysfs.root()).hardware());
  REQUIRE(all.size() == 3);
  const Device& nic = find(all, "0000:03:00.0");
  CHECK(nic.link->name == "eth1");
  CHECK(nic.driver == "iavf");
  CHECK(nic.vendor == "8086");
  CHECK(nic.device == "154c");
  CHECK(nic.numa == 1);
  CHECK(find(all, "netdev:52-54-00-00-00-07").link->name == "usb0");
  CHECK(find(all, "netdev:veth0").kept_back.empty());
}

TEST_CASE("links with one permanent MAC address have their names as ids") {
  NodeLinks node{.links = {link(3, "a"), link(4, "b")}};
  for (Link& one : node.links) one.permanent_mac = mac("52:54:00:00:00:07");
  const auto all = devices::inventory(node, {});
  CHECK(all.size() == 2);
  CHECK(find(all, "netdev:a").link->name == "a");
}

TEST_CASE("a virtual function has its parent, and the physical function its children") {
  FakeSysfs sysfs;
  sysfs.add_nic("0000:03:00.0", "i40e", "ens5");
  sysfs.add_nic("0000:03:02.0", "vfio-pci", "");
  sysfs.point("bus/pci/devices/0000:03:02.0/physfn", "bus/pci/devices/0000:03:00.0");
  sysfs.point("bus/pci/devices/0000:03:00.0/virtfn0", "bus/pci/devices/0000:03:02.0");
  sysfs.point("bus/pci/devices/0000:03:02.0/iommu_group", "kernel/iommu_groups/17");
  const devices::Sysfs at(sysfs.root());
  const auto all = devices::inventory({.links = {link(2, "ens5")}}, at.hardware());
  const Device& child = find(all, "0000:03:02.0");
  CHECK(child.physical_function == "0000:03:00.0");
  CHECK(child.physical_link == "ens5");
  CHECK(is_healthy(child));
  CHECK(child.kept_back.empty());
  const Device& parent = find(all, "0000:03:00.0");
  CHECK(parent.virtual_functions == std::vector<std::string>{"0000:03:02.0"});
  CHECK(parent.kept_back == "has virtual functions");
  CHECK(parent.forcible);
  CHECK(at.user_space_nodes("0000:03:02.0") ==
        std::vector<std::string>{"/dev/vfio/17", "/dev/vfio/vfio"});
}

TEST_CASE("hardware has its PCIe root, RDMA and SR-IOV, a link its MAC and its first addresses") {
  FakeSysfs sysfs;
  sysfs.add_nic("0000:03:00.0", "ice", "ens5");
  const std::string at = "devices/pci0000:00/0000:00:1c.0/0000:03:00.0",
                    listed = "bus/pci/devices/";
  fs::create_directories(fs::path(sysfs.root()) / "devices/pci0000:00/0000:00:1c.0");
  fs::rename(fs::path(sysfs.root()) / (listed + "0000:03:00.0"), fs::path(sysfs.root()) / at);
  sysfs.point(listed + "0000:03:00.0", at);
  sysfs.write(at + "/sriov_totalvfs", "8");
  sysfs.write(at + "/infiniband/mlx5_0/node_type", "1");
  sysfs.add_nic("0000:04:00.0", "ice", "");
  sysfs.write(listed + "0000:04:00.0/sriov_totalvfs", "0");
  Link used = link(2, "ens5");
  used.mac = mac("02:00:00:00:00:01");
  const auto address = [](const char* text) {
    return netlink::LinkAddress{.link = 2, .cidr = netlink::Cidr::parse(text).value()};
  };
  const auto all = devices::inventory(
      {.links = {used},
       .addresses = {address("10.0.0.1/24"), address("10.0.0.2/24"), address("2001:db8::1/64")}},
      devices::Sysfs(sysfs.root()).hardware());
  const Device& nic = find(all, "0000:03:00.0");
  CHECK(nic.pcie_root == "pci0000:00");
  CHECK(nic.rdma);
  CHECK(nic.sriov);
  REQUIRE(nic.link);
  CHECK(nic.link->mac == used.mac);
  CHECK(nic.link->ipv4 == "10.0.0.1/24");
  CHECK(nic.link->ipv6 == "2001:db8::1/64");
  const Device& other = find(all, "0000:04:00.0");
  CHECK(other.pcie_root.empty());
  CHECK_FALSE(other.rdma);
  CHECK_FALSE(other.sriov);
}

TEST_CASE("what the node uses is kept back, each with its reason") {
  Link lo = link(1, "lo"), port = link(4, "port"), vlan = link(6, "eth0.5", "vlan");
  lo.loopback = true;
  port.master = 3;
  vlan.parent_index = 5;
  NodeLinks node{
      .links = {lo, link(2, "plain"), link(3, "br0", "bridge"), port, link(5, "eth0"), vlan,
                link(7, "addressed"), link(8, "local")},
      .addresses = {{.link = 7, .cidr = *netlink::Cidr::parse("192.0.2.1/24")},
                    {.link = 8, .cidr = *netlink::Cidr::parse("fe80::1/64"), .scope = 253}},
      .default_routes = {6}};
  const auto all = devices::inventory(node, {});
  const auto reason = [&](const char* id) { return find(all, id).kept_back; };
  CHECK(reason("netdev:lo") == "loopback");
  CHECK_FALSE(find(all, "netdev:lo").forcible);
  CHECK(reason("netdev:plain").empty());
  CHECK(reason("netdev:br0") == "kind bridge");
  CHECK(reason("netdev:port") == "port of 'br0'");
  CHECK(reason("netdev:eth0") == "below 'eth0.5', which has the default route");
  CHECK(reason("netdev:eth0.5") == "default route of the node");
  CHECK(reason("netdev:addressed") == "has the address 192.0.2.1/24");
  CHECK(reason("netdev:local").empty());
}

TEST_CASE("a link whose name cannot be an id is never offered") {
  const auto all = devices::inventory({.links = {link(2, "eth@1")}}, {});
  CHECK_FALSE(all.at(0).kept_back.empty());
  CHECK_FALSE(all.at(0).forcible);
}

TEST_CASE("only a link that is up needs a carrier to be healthy") {
  Device device{.id = "netdev:a", .link = devices::DeviceLink{.name = "a"}};
  CHECK(is_healthy(device));
  device.link->up = true;
  CHECK_FALSE(is_healthy(device));
  device.link->carrier = true;
  CHECK(is_healthy(device));
  device.link.reset();
  CHECK_FALSE(is_healthy(device));
}
