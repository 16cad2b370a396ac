#include "plugins/devices/agent/promises.h"

#include <doctest/doctest.h>

using devices::Entry;
using devices::Fate;
using devices::Listing;
using devices::Moment;
using devices::Pod;
using devices::PodDevices;
using devices::Reconciler;

namespace {

const std::vector<PodDevices> kListed = {{"shop", "web-0", {{"v.example/nic", {"a", "b"}}}}};
const Listing kListing(kListed);
const std::vector<PodDevices> kNobody;
const Listing kEmpty(kNobody);

Moment at(std::int64_t seconds) { return {"boot", 1000 * seconds}; }

Entry promised(std::int64_t when) {
  return {.id = "a", .resource = "v.example/nic", .promised = when, .since = at(when)};
}
Entry owned(const char* name, const char* uid) {
  return {.id = "a", .resource = "v.example/nic", .pod = Pod{"shop", name, uid}};
}

}  // namespace

TEST_CASE("a promised device gets the pod of a list that was asked for after Allocate") {
  Reconciler reconciler;
  CHECK(reconciler.decide(promised(100), kListing, at(101)) == Fate::kGetsPod);
  CHECK(reconciler.decide(promised(100), kListing, at(100)) == Fate::kStays);
  Entry other = promised(100);
  other.id = "c";
  CHECK(reconciler.decide(other, kListing, at(101)) == Fate::kStays);
}

TEST_CASE("a pod that PodResources named gives way to the next one, a claimed pod does not") {
  Reconciler reconciler;
  Entry entry = promised(100);
  entry.pod = Pod{"shop", "old"};
  CHECK(reconciler.decide(entry, kListing, at(101)) == Fate::kGetsPod);
  entry.pod->uid = "5f3a";
  CHECK(reconciler.decide(entry, kListing, at(101)) == Fate::kStays);
  entry = owned("web-0", "");
  CHECK(reconciler.decide(entry, kListing, at(101)) == Fate::kStays);
}

TEST_CASE("a device is free when two looks 30 s apart do not list it") {
  Reconciler reconciler;
  const Entry entry = owned("web-0", "5f3a");
  CHECK(reconciler.decide(entry, kEmpty, at(1000)) == Fate::kStays);
  CHECK(reconciler.decide(entry, kEmpty, at(1029)) == Fate::kStays);
  CHECK(reconciler.decide(entry, kListing, at(1030)) == Fate::kStays);  // listed again
  CHECK(reconciler.decide(entry, kEmpty, at(1031)) == Fate::kStays);
  CHECK(reconciler.decide(entry, kEmpty, at(1061)) == Fate::kIsFree);
}

TEST_CASE("a device in a pod is never free, an unclaimed promise after 10 minutes and two looks") {
  Reconciler reconciler;
  Entry held = owned("web-0", "5f3a");
  held.holder = devices::Holder{};
  CHECK(reconciler.decide(held, kEmpty, at(1000)) == Fate::kStays);
  CHECK(reconciler.decide(held, kEmpty, at(9000)) == Fate::kStays);
  for (const int now : {1000, 1600, 1601}) {
    CHECK(reconciler.decide(promised(1000), kEmpty, at(now)) == Fate::kStays);
  }
  CHECK(reconciler.decide(promised(1000), kEmpty, at(1631)) == Fate::kIsFree);
}

TEST_CASE("Allocate between two looks keeps the device") {
  Reconciler reconciler;
  Entry entry = owned("web-0", "5f3a");
  CHECK(reconciler.decide(entry, kEmpty, at(1000)) == Fate::kStays);
  entry.promised = 1010;
  CHECK(reconciler.decide(entry, kEmpty, at(1040)) == Fate::kStays);
  CHECK(reconciler.decide(entry, kEmpty, at(1070)) == Fate::kIsFree);
}

TEST_CASE("a clock that is set neither shortens nor lengthens a promise") {
  for (const std::int64_t jump : {-100'000, 0, 100'000}) {
    CAPTURE(jump);
    Reconciler reconciler;
    Entry entry = promised(5000);
    entry.promised += jump;
    CHECK_FALSE(reconciler.is_overdue(entry, at(5029)));
    CHECK(reconciler.is_overdue(entry, at(5030)));
    CHECK_FALSE(reconciler.is_overdue(entry, at(5031)));
    CHECK(reconciler.decide(entry, kListing, at(5000)) == Fate::kStays);
    CHECK(reconciler.decide(entry, kListing, at(5001)) == Fate::kGetsPod);
    for (const int now : {5000, 5600, 5601, 5630}) {
      CHECK(reconciler.decide(entry, kEmpty, at(now)) == Fate::kStays);
    }
    CHECK(reconciler.decide(entry, kEmpty, at(5631)) == Fate::kIsFree);
  }
}

TEST_CASE("another agent goes on with the time of a promise") {
  CHECK(Reconciler().decide(promised(1000), kEmpty, at(1600)) == Fate::kStays);
  Reconciler reconciler;
  CHECK(reconciler.decide(promised(1000), kEmpty, at(1700)) == Fate::kStays);
  CHECK(reconciler.decide(promised(1000), kEmpty, at(1730)) == Fate::kIsFree);
}

TEST_CASE("a promise of another boot, or whose time is not known, begins now") {
  Reconciler reconciler;
  Entry entry = promised(1000);
  entry.since->boot = "another";
  CHECK(reconciler.decide(entry, kListing, at(9000)) == Fate::kGetsTime);
  CHECK_FALSE(reconciler.is_overdue(entry, at(9000)));
  entry.since.reset();
  CHECK(reconciler.decide(entry, kEmpty, at(9000)) == Fate::kGetsTime);
  entry.pod = Pod{"shop", "web-0"};
  CHECK(reconciler.decide(entry, kEmpty, at(9000)) == Fate::kGetsTime);
  entry.pod->uid = "5f3a";  // it is its pod's
  CHECK(reconciler.decide(entry, kEmpty, at(9000)) == Fate::kStays);
}
