#include <doctest/doctest.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libcni/common/error.h"
#include "plugins/devices/agent/core.h"
#include "plugins/devices/agent/dra/promise.h"
#include "plugins/state/ledger.h"
#include "tests/unit/surroundings.h"

using devices::Claim;
using devices::Core;
using devices::Entry;
using devices::Holder;
using devices::Ledger;
using devices::ListedClaim;
using devices::Pod;
using devices::dra::Order;

namespace {

constexpr const char* kDraResource = "v.example/tap";
constexpr const char* kConfig = R"({"dra": {"node": "n1"}, "pools": [
  {"resource": "v.example/tap", "slots": {"count": 3}, "plugins": [{"type": "tap"}]}]})";
const Pod kOwner{"shop", "web-0", "u1"};
constexpr std::chrono::seconds kSoon{1};

// An agent without kubelet and API server.
struct DraNode {
  surroundings::Folder folder;
  Core core{devices::Pools::parse(kConfig), places()};

  devices::Places places() const {
    return {.ledger = folder.file("ledger"),
            .cdi = "",
            .device_info = "",
            .sysfs = folder.path(),
            .metrics = ""};
  }
  Ledger ledger() const { return Ledger::create(folder.file("ledger")); }
  std::optional<Entry> entry(const char* id) const { return ledger().read(id); }
  Order order(const std::string& uid, const std::vector<std::string>& names) const {
    Order out{.claim = {.uid = uid,
                        .space = "shop",
                        .name = "nic-" + uid,
                        .parts = static_cast<std::int64_t>(names.size())},
              .pod = kOwner,
              .parts = {}};
    for (const std::string& name : names) {
      const devices::dra::Result result{.request = "nic", .device = name};
      out.parts.push_back({result, core.pools().pools.front()});
    }
    return out;
  }
};

std::vector<std::string> add_of(DraNode& node, const Pod& pod,
                                const std::vector<ListedClaim>& claims = {}) {
  return node.core.claim(pod, {pod.space, pod.name, {}, claims}, devices::moment_now());
}

std::string refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const cni::Error& e) {
    return e.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("a claim gets all of its devices or none") {
  DraNode node;
  CHECK(refused([&] {
          node.core.prepare(node.order("c1", {"tap-1", "tap-9"}), kSoon);
        }) == "device 'tap-9' is none of this node's");
  CHECK_FALSE(node.entry("tap:1"));
  const auto entries = node.core.prepare(node.order("c1", {"tap-1", "tap-2"}), kSoon);
  REQUIRE(entries.size() == 2);
  CHECK(node.entry("tap:1") == entries[0]);
  CHECK(entries[0].claim->device == "tap-1");
  CHECK(entries[0].is_of(kOwner));
  CHECK(node.core.prepared().size() == 2);
}

TEST_CASE("what is prepared stays, and what a kill left out is added") {
  DraNode node;
  const auto first = node.core.prepare(node.order("c1", {"tap-1", "tap-2"}), kSoon);
  node.ledger().remove("tap:2");
  const auto again = node.core.prepare(node.order("c1", {"tap-1", "tap-2"}), kSoon);
  CHECK(again[0] == first[0]);
  CHECK(node.entry("tap:2"));
}

TEST_CASE("a device of another claim or promise is not taken") {
  DraNode node;
  node.core.prepare(node.order("c1", {"tap-1"}), kSoon);
  CHECK(refused([&] {
          node.core.prepare(node.order("c2", {"tap-1"}), kSoon);
        }).find("is still prepared for claim 'shop/nic-c1'") != std::string::npos);
  CHECK(refused([&] {
          node.core.allocate(kDraResource, {"tap:1"});
        }).find("is prepared for claim 'shop/nic-c1'") != std::string::npos);
  node.core.allocate(kDraResource, {"tap:2"});
  CHECK(refused([&] {
          node.core.prepare(node.order("c2", {"tap-2"}), kSoon);
        }).find("is still promised by the device plugin API") != std::string::npos);
  std::ofstream(node.folder.file("ledger") + "/tap:3") << "{";
  CHECK(refused([&] {
          node.core.prepare(node.order("c2", {"tap-3"}), kSoon);
        }).find("cannot be read") != std::string::npos);
}

TEST_CASE("Unprepare ends the promise, and leaves the holder for DEL") {
  DraNode node;
  node.core.prepare(node.order("c1", {"tap-1"}), kSoon);
  const Holder holder{.owner = {{"net", "c", "eth0"}, "/run/netns/c", 1}, .interface = "net1"};
  node.ledger().put_holder("tap:1", holder);
  node.core.unprepare("c1", kSoon);
  node.core.unprepare("c1", kSoon);
  const auto entry = node.entry("tap:1");
  REQUIRE(entry);
  CHECK_FALSE(entry->is_wanted());
  CHECK(entry->holder);
  node.core.prepare(node.order("c2", {"tap-1"}), kSoon);
  CHECK(node.entry("tap:1")->holder);
  node.core.unprepare("c2", kSoon);
  node.ledger().remove_holder("tap:1");
  CHECK_FALSE(node.entry("tap:1"));
}

TEST_CASE("the lock of the ledger is waited for as long as the kubelet's call lasts") {
  DraNode node;
  node.core.prepare(node.order("c1", {"tap-1"}), kSoon);
  const auto held = node.ledger().lock();
  constexpr std::chrono::milliseconds kMoment{50};
  CHECK(refused([&] { node.core.prepare(node.order("c2", {"tap-2"}), kMoment); }) != "none");
  CHECK(refused([&] { node.core.unprepare("c1", kMoment); }) != "none");
  CHECK(refused([&] { node.core.unprepare("c3", kMoment); }) == "none");  // it is not known
}

TEST_CASE("lists of the kubelet end no claim") {
  DraNode node;
  node.core.prepare(node.order("c1", {"tap-1"}), kSoon);
  const std::vector<devices::PodDevices> others = {{.space = "a", .name = "b", .devices = {}}};
  for (const int later : {0, 100, 10'000}) {
    node.core.reconcile(others, {devices::boot_id(), 1000 * later});
  }
  CHECK(node.entry("tap:1"));
}

TEST_CASE("ADD gets the devices of its pod's claims, and not without one that is listed") {
  DraNode node;
  node.core.prepare(node.order("c1", {"tap-1"}), kSoon);
  using Ids = std::vector<std::string>;
  CHECK(add_of(node, kOwner) == Ids{"tap:1"});
  CHECK(add_of(node, kOwner, {{"shop", "nic-c1", "tap-1", ""}}) == Ids{"tap:1"});
  const Pod other{"shop", "web-1", "u2"};
  CHECK(add_of(node, other).empty());
  CHECK(refused([&] {
          add_of(node, kOwner, {{"shop", "nic-c2", "tap-2", ""}});
        }) == "claim 'shop/nic-c2' of pod 'shop/web-0': the ledger has lost device 'tap-2'");
  CHECK(refused([&] {
          add_of(node, other, {{"shop", "nic-c1", "tap-1", ""}});
        }).find("was prepared for pod 'shop/web-0', and a device is in one pod") !=
        std::string::npos);
}

TEST_CASE("a pod of a namespace with claims is the kubelet's question, another one is not") {
  DraNode node;
  const std::vector<devices::PodDevices> others = {{.space = "a", .name = "b", .devices = {}}};
  node.core.reconcile(others, devices::moment_now());
  CHECK_FALSE(node.core.concerns(kOwner));
  node.core.prepare(node.order("c1", {"tap-1"}), kSoon);
  CHECK(node.core.concerns(kOwner));
  CHECK(node.core.concerns({"shop", "web-1", "u2"}));
  CHECK_FALSE(node.core.concerns({"other", "web-1", "u3"}));
  const Pod plain{"shop", "plain", "u4"};
  node.core.know_pods([&](const Pod& pod) { return pod.uid == "u4" || pod == kOwner; });
  CHECK_FALSE(node.core.concerns(plain));
  CHECK(node.core.concerns({"shop", "plain", "u5"}));
  CHECK(node.core.concerns(kOwner));  // whatever others say, the ledger has a device of it
  node.core.know_pods({});
  std::filesystem::remove(node.folder.file("ledger") + "/tap:1");
  CHECK(node.core.concerns(kOwner));                   // its entry was lost
  CHECK(node.core.concerns({"shop", "web-1", "u2"}));  // and may be reserved for this one, too
  CHECK_FALSE(node.core.concerns({"other", "web-1", "u3"}));
}

TEST_CASE("a pod beside one whose claim the kubelet lists is its question, also without an entry") {
  DraNode node;
  const Pod next{"shop", "web-1", "u2"};
  const std::vector<devices::PodDevices> none = {{.space = "shop", .name = "web-0", .devices = {}}};
  auto with_claim = none;
  with_claim[0].claims = {{"shop", "nic-c1", "tap-1", ""}};
  node.core.reconcile(with_claim, devices::moment_now());
  CHECK(node.core.concerns(next));
  CHECK_FALSE(node.core.concerns({"other", "web-1", "u3"}));
  node.core.reconcile(none, devices::moment_now());
  CHECK_FALSE(node.core.concerns(next));
}

TEST_CASE("a list of before a loss does not end what is known of it, the one after the next does") {
  DraNode node;
  const std::vector<devices::PodDevices> before = {{.space = "shop", .name = "a", .devices = {}}};
  node.core.reconcile(before, devices::moment_now());
  node.core.prepare(node.order("c1", {"tap-1"}), kSoon);
  CHECK(node.core.concerns(kOwner));
  std::filesystem::remove(node.folder.file("ledger") + "/tap:1");
  node.core.reconcile(before, devices::moment_now());
  CHECK(node.core.concerns(kOwner));
  node.core.reconcile(before, devices::moment_now());
  CHECK_FALSE(node.core.concerns(kOwner));
}
