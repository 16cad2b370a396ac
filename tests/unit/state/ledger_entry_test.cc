#include "plugins/state/ledger_entry.h"

#include <doctest/doctest.h>

#include <string>

#include "libcni/common/error.h"
#include "plugins/names/networks.h"
#include "plugins/state/format.h"

using devices::Claim;
using devices::Entry;
using devices::Holder;
using devices::Pod;

namespace {

Entry example() {
  Entry out{.id = "0000:03:00.1", .resource = "vendor.example/nic", .promised = 1790000000};
  out.pod = Pod{"shop", "web-0", "5f3a"};
  out.plugins = R"([{"type":"host-device","deviceID":"0000:03:00.1"}])";
  out.ifname = "storage";
  return out;
}

Entry with_claim() {
  Entry out = example();
  out.claim = Claim{.uid = "c0ffee",
                    .space = "shop",
                    .name = "web-0-nic",
                    .request = "nic/fast",
                    .device = "0000-03-00-1",
                    .share = "a1",
                    .cdi = {"vendor.example/nic=0000:03:00.1-5f3a91c2"},
                    .parts = 2,
                    .boot = "b1"};
  return out;
}

Holder holder_of(const Entry& entry) {
  return {.owner = {{"net", "c1", "eth0"}, "/run/netns/c1", 4242},
          .interface = "net1",
          .resource = entry.resource,
          .plugins = entry.plugins,
          .promised = entry.promised,
          .pod = entry.pod,
          .started = 987654321,
          .result = "{}"};
}

}  // namespace

TEST_CASE("an entry is read as it was written") {
  CHECK(Entry::from(example().text()) == example());
  const Entry least{.id = "eth1:macvlan:0", .resource = "vendor.example/macvlan"};
  CHECK(Entry::from(least.text()) == least);
}

TEST_CASE("an entry with a claim is read as it was written, and refused by the release before") {
  const Entry entry = with_claim();
  CHECK(Entry::from(entry.text()) == entry);
  CHECK(entry.claim->str() == "shop/web-0-nic");
  CHECK_THROWS_AS(static_cast<void>(plugins::document_in(entry.text())), cni::Error);
  CHECK(example().text().find("format") == std::string::npos);
}

TEST_CASE("each beginning of an entry is a torn file") {
  const std::string whole = with_claim().text();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK_FALSE(Entry::from(whole.substr(0, size)));
  }
}

TEST_CASE("a holder is read as it was written, and has its result when that is written whole") {
  const Holder holder = holder_of(example());
  Holder interrupted = holder;
  interrupted.result.clear();
  const std::string whole = holder.text(), first = interrupted.text();
  CHECK(Holder::from(whole) == holder);
  CHECK(first + Holder::line_of("{}") == whole);
  for (std::size_t size = 0; size < first.size(); ++size) {
    CHECK_FALSE(Holder::from(whole.substr(0, size)));
  }
  for (std::size_t size = first.size(); size < whole.size(); ++size) {
    CHECK(Holder::from(whole.substr(0, size)) == interrupted);
  }
  for (const char* const text : {"x\n", "[]\n", "{\n", "\n", "{}{}\n"}) {
    CHECK(Holder::from(first + text) == interrupted);
  }
  CHECK_THROWS_AS(Holder::from("{\"format\":2,\"interface\":\"net1\"}\n"), cni::Error);
}

TEST_CASE("an entry of a later format is an error and no torn file") {
  std::string later = example().text();
  later.insert(1, R"("format":3,)");
  CHECK_THROWS_AS(Entry::from(later), cni::Error);
}

TEST_CASE("JSON that is no entry is refused") {
  for (const char* const text : {"[]", "null", "{}", R"({"id":"../x","resource":"a/b"})", "1"}) {
    CHECK_THROWS_AS(static_cast<void>(Entry::from(text)), cni::Error);
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

TEST_CASE("a device is held if its container is that of the pod that it was promised to last") {
  Entry entry = example();
  CHECK_FALSE(entry.is_held());
  entry.holder = holder_of(entry);
  CHECK(entry.is_held());
  entry.pod->uid = "next";
  CHECK_FALSE(entry.is_held());
  entry.pod.reset();
  CHECK_FALSE(entry.is_held());
  entry.promised = 0;  // the promise is lost
  CHECK(entry.is_held());
  entry.promise = Entry::Promise::kTorn;
  CHECK_FALSE(entry.is_held());
}

TEST_CASE("a device without promise, pod and holder is free") {
  Entry entry = example();
  CHECK_FALSE(entry.is_free());
  entry.pod.reset();
  CHECK_FALSE(entry.is_free());
  entry.promised = 0;
  CHECK(entry.is_free());
  entry.holder = Holder{};
  CHECK_FALSE(entry.is_free());
  CHECK_FALSE(entry.is_wanted());
}

TEST_CASE("resources have networks of different names") {
  CHECK(names::devices_network("vendor.example/nic") == "devices.vendor.example_nic");
  CHECK(names::is_devices_network(names::devices_network("vendor.example/nic")));
  CHECK_FALSE(names::is_devices_network("devices"));
}
