#include "plugins/devices/ledger/entry.h"

#include <doctest/doctest.h>

#include <string>

#include "libcni/common/error.h"
#include "plugins/names/networks.h"

using devices::Entry;
using devices::Pod;

namespace {

Entry example() {
  Entry out{.id = "0000:03:00.1", .resource = "vendor.example/nic", .promised = 1790000000};
  out.pod = Pod{"shop", "web-0", "5f3a"};
  out.plugins = R"([{"type":"host-device","deviceID":"0000:03:00.1"}])";
  out.ifname = "storage";
  out.holder = devices::Holder{.owner = {"net", "c1", "eth0", "/run/netns/c1", 4242},
                               .interface = "net1",
                               .plugins = out.plugins,
                               .result = "{}",
                               .pod = out.pod,
                               .started = 987654321};
  return out;
}

}  // namespace

TEST_CASE("an entry is read as it was written") {
  CHECK(Entry::from(example().text()) == example());
  const Entry least{.id = "eth1:macvlan:0", .resource = "vendor.example/macvlan"};
  CHECK(Entry::from(least.text()) == least);
}

TEST_CASE("each beginning of an entry is a torn file") {
  const std::string whole = example().text();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK_FALSE(Entry::from(whole.substr(0, size)));
  }
}

TEST_CASE("an entry of a later format is an error and no torn file") {
  std::string later = example().text();
  later.insert(1, R"("format":2,)");
  CHECK_THROWS_AS(Entry::from(later), cni::Error);
}

TEST_CASE("another content is no entry") {
  for (const char* const text : {"[]", "null", "{}", R"({"id":"../x","resource":"a/b"})", "1"}) {
    CHECK_FALSE(Entry::from(text));
  }
}

TEST_CASE("IDs of devices are names of files in the ledger") {
  for (const char* const id :
       {"0000:03:00.1", "mlx5_core.sf.4", "netdev:02-00-5e-00-00-01", "eth1:macvlan:19"}) {
    CHECK(devices::is_device_id(id));
  }
  for (const char* const id : {"", ".", "..", ".lock", "a/b", "a b", "a\n", "ä"}) {
    CHECK_FALSE(devices::is_device_id(id));
  }
  CHECK(devices::is_device_id(std::string(63, 'a')));
  CHECK_FALSE(devices::is_device_id(std::string(64, 'a')));
}

TEST_CASE("an entry is a pod's by its UID, or by its name where there is no UID") {
  Entry entry = example();
  CHECK(entry.is_of({"shop", "web-0", "5f3a"}));
  CHECK(entry.is_of({"shop", "renamed", "5f3a"}));
  CHECK_FALSE(entry.is_of({"shop", "web-0", "other"}));
  entry.pod->uid.clear();
  CHECK(entry.is_of({"shop", "web-0", "other"}));
  CHECK_FALSE(entry.is_of({"shop", "web-1", "other"}));
  entry.pod.reset();
  CHECK_FALSE(entry.is_of({"shop", "web-0", ""}));
  CHECK(entry.is_unclaimed());
}

TEST_CASE("a device without promise, pod and holder is free") {
  Entry entry = example();
  CHECK_FALSE(entry.is_free());
  entry.holder.reset();
  CHECK_FALSE(entry.is_free());
  entry.pod.reset();
  CHECK_FALSE(entry.is_free());
  entry.promised = 0;
  CHECK(entry.is_free());
}

TEST_CASE("resources have networks of different names") {
  CHECK(names::devices_network("vendor.example/nic") == "devices.vendor.example_nic");
  CHECK(names::is_devices_network(names::devices_network("vendor.example/nic")));
  CHECK_FALSE(names::is_devices_network("devices"));
}
