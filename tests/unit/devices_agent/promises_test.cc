#include "plugins/devices/agent/promises.h"

#include <doctest/doctest.h>

using devices::Entry;
using devices::Fate;
using devices::Listing;
using devices::Pod;
using devices::PodDevices;
using devices::Reconciler;

namespace {

const std::vector<PodDevices> kListed = {{"shop", "web-0", {{"v.example/nic", {"a", "b"}}}}};
const Listing kListing(kListed);
const std::vector<PodDevices> kNobody;
const Listing kEmpty(kNobody);

Entry promised(std::int64_t when) {
  return {.id = "a", .resource = "v.example/nic", .promised = when};
}
Entry owned(const char* name, const char* uid) {
  return {.id = "a", .resource = "v.example/nic", .pod = Pod{"shop", name, uid}};
}

}  // namespace

TEST_CASE("a promised device gets the pod of a list that was asked for after Allocate") {
  Reconciler reconciler;
  CHECK(reconciler.decide(promised(100), kListing, 101) == Fate::kGetsPod);
  CHECK(reconciler.decide(promised(100), kListing, 100) == Fate::kStays);
  Entry other = promised(100);
  other.id = "c";
  CHECK(reconciler.decide(other, kListing, 101) == Fate::kStays);
}

TEST_CASE("a pod that PodResources named gives way to the next one, a claimed pod does not") {
  Reconciler reconciler;
  Entry entry = owned("old", "");
  entry.promised = 100;
  CHECK(reconciler.decide(entry, kListing, 101) == Fate::kGetsPod);
  entry.pod->uid = "5f3a";
  CHECK(reconciler.decide(entry, kListing, 101) == Fate::kStays);
  entry = owned("web-0", "");
  CHECK(reconciler.decide(entry, kListing, 101) == Fate::kStays);
}

TEST_CASE("a device is free when two looks 30 s apart do not list it") {
  Reconciler reconciler;
  const Entry entry = owned("web-0", "5f3a");
  CHECK(reconciler.decide(entry, kEmpty, 1000) == Fate::kStays);
  CHECK(reconciler.decide(entry, kEmpty, 1029) == Fate::kStays);
  CHECK(reconciler.decide(entry, kListing, 1030) == Fate::kStays);  // listed again
  CHECK(reconciler.decide(entry, kEmpty, 1031) == Fate::kStays);
  CHECK(reconciler.decide(entry, kEmpty, 1061) == Fate::kIsFree);
}

TEST_CASE("a device in a pod is never free, an unclaimed promise after 10 minutes and two looks") {
  Reconciler reconciler;
  Entry held = owned("web-0", "5f3a");
  held.holder = devices::Holder{};
  CHECK(reconciler.decide(held, kEmpty, 1000) == Fate::kStays);
  CHECK(reconciler.decide(held, kEmpty, 9000) == Fate::kStays);
  CHECK(reconciler.decide(promised(1000), kEmpty, 1600) == Fate::kStays);
  CHECK(reconciler.decide(promised(1000), kEmpty, 1601) == Fate::kStays);
  CHECK(reconciler.decide(promised(1000), kEmpty, 1631) == Fate::kIsFree);
  CHECK(reconciler.decide(promised(9000), kEmpty, 1700) == Fate::kStays);  // the clock was wrong
  CHECK(reconciler.decide(promised(9000), kEmpty, 1730) == Fate::kIsFree);
}

TEST_CASE("Allocate between two looks keeps the device") {
  Reconciler reconciler;
  Entry entry = owned("web-0", "5f3a");
  CHECK(reconciler.decide(entry, kEmpty, 1000) == Fate::kStays);
  entry.promised = 1010;
  CHECK(reconciler.decide(entry, kEmpty, 1040) == Fate::kStays);
  CHECK(reconciler.decide(entry, kEmpty, 1070) == Fate::kIsFree);
}
