#include "plugins/devices/agent/core.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "libcni/daemon/event_loop.h"
#include "netlink/types/fd.h"
#include "plugins/devices/agent/pools/pools.h"
#include "plugins/state/ledger.h"
#include "tests/unit/surroundings.h"

using devices::Core;
using devices::Entry;
using devices::Ledger;
using devices::Pod;

namespace {

using Named = std::vector<std::string>;

constexpr const char* kTap = "v.example/tap";
constexpr const char* kTapConfig = R"({"pools": [
  {"resource": "v.example/tap", "slots": {"count": 3}, "plugins": [{"type": "tap"}],
   "ifname": "vm"},
  {"resource": "v.example/nic", "slots": {"parent": "no-such-link", "count": 1},
   "plugins": [{"type": "macvlan"}]}
]})";
const Pod kPod{"shop", "web-0", "u1"};
const Pod kNext{"shop", "web-0", "u2"};
const std::vector<devices::PodDevices> kOthers = {{"kube-system", "kube-proxy-1", {}}};

// Some seconds later.
devices::Moment in(std::int64_t seconds) {
  devices::Moment out = devices::moment_now();
  out.boot_time += 1000 * seconds;
  return out;
}

devices::PodDevices listed(const Named& ids) { return {"", "", {{kTap, ids}}}; }

// An agent without kubelet on a node whose taps need nothing of it.
struct Node {
  surroundings::Folder folder;
  Core core{devices::Pools::parse(kTapConfig), places()};

  devices::Places places() const {
    return {.ledger = folder.file("ledger"),
            .cdi = "",
            .device_info = "",
            .sysfs = folder.path(),
            .metrics = folder.file("metrics.prom"),
            .pods = folder.file("pods")};
  }
  Ledger ledger() const { return Ledger::create(folder.file("ledger")); }
  std::optional<Entry> entry(const char* id = "tap:1") const { return ledger().read(id); }
  Named claim(const Pod& pod, const Named& ids) { return core.claim(pod, listed(ids), in(0)); }
};

cni::Code code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const cni::Error& e) {
    return e.code();
  }
  FAIL("no error");
  return cni::Code::kInternal;
}

// What the call writes to stderr.
std::string log_of(const std::function<void()>& call) {
  const surroundings::Folder folder;
  const int before = ::dup(STDERR_FILENO);
  const int file = ::open(folder.file("log").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  ::dup2(file, STDERR_FILENO);
  ::close(file);
  call();
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  return netlink::read_file(folder.file("log")).value_or("");
}

}  // namespace

TEST_CASE("slots are offered, and unhealthy without their parent") {
  const Node node;
  CHECK(node.core.offers(kTap).size() == 3);
  CHECK(node.core.offers(kTap)[0] == devices::Offer{"tap:1", true});
  CHECK_FALSE(node.core.offers("v.example/nic").at(0).healthy);
  CHECK(node.core.offers("v.example/other").empty());
}

TEST_CASE("Allocate promises devices, or none if one of them cannot be had") {
  Node node;
  const auto handout = node.core.allocate(kTap, {"tap:1", "tap:2"});
  CHECK(handout.environment.at("PCIDEVICE_V_EXAMPLE_TAP") == "tap:1,tap:2");
  const auto entry = node.entry();
  REQUIRE(entry);
  CHECK(entry->is_unclaimed());
  CHECK(entry->plugins == R"([{"type":"tap"}])");
  CHECK(entry->ifname == "vm");
  CHECK(code_of([&] {
          node.core.allocate(kTap, {"tap:3", "tap:9"});
        }) == cni::Code::kTryAgainLater);
  CHECK_FALSE(node.entry("tap:3"));
  CHECK(code_of([&] { node.core.allocate("v.example/nic", {"no-such-link:macvlan:1"}); }) ==
        cni::Code::kTryAgainLater);
  CHECK(code_of([&] { node.core.allocate("other.example/a", {"a"}); }) ==
        cni::Code::kInvalidConfig);
  CHECK(node.core.counts().at(0).allocations == 2);
  CHECK(node.core.counts().at(0).failures == 1);
}

TEST_CASE("a claim writes the pod, and a pod of another UID waits for the next Allocate") {
  Node node;
  node.core.allocate(kTap, {"tap:2", "tap:1"});
  CHECK(node.claim(kPod, {"tap:2", "tap:1"}) == Named{"tap:1", "tap:2"});
  CHECK(node.entry()->pod == kPod);
  CHECK(node.entry()->promised != 0);
  CHECK(node.claim(kPod, {"tap:1", "tap:2"}) == Named{"tap:1", "tap:2"});
  CHECK(code_of([&] { node.claim(kNext, {"tap:1"}); }) == cni::Code::kTryAgainLater);
  node.core.allocate(kTap, {"tap:1"});
  CHECK(node.claim(kNext, {"tap:1"}) == Named{"tap:1"});
  CHECK(node.claim({"shop", "plain", "u3"}, {}).empty());
  CHECK(node.core.claim(kNext, {"", "", {{"other.example/gpu", {"a"}}, {kTap, {"tap:1"}}}}, in(0))
            .size() == 1);
}

TEST_CASE("what the kubelet listed before Allocate says nothing of the device") {
  Node node;
  const devices::Moment before = in(-1);
  node.core.allocate(kTap, {"tap:1"});
  const auto claim = [&] { node.core.claim(kPod, listed({"tap:1"}), before); };
  CHECK(code_of(claim) == cni::Code::kTryAgainLater);
  CHECK_FALSE(node.entry()->pod);
  node.core.reconcile({{"shop", "web-9", {{kTap, {"tap:1"}}}}}, before);
  CHECK_FALSE(node.entry()->pod);
  node.core.reconcile({{"shop", "web-1", {{kTap, {"tap:1"}}}}}, in(1));
  CHECK(code_of(claim) == cni::Code::kTryAgainLater);  // the name alone is known by now
  CHECK(node.claim({"shop", "web-1", "u3"}, {"tap:1"}) == Named{"tap:1"});
}

TEST_CASE(
    "agents that are restarted every 5 minutes free a promise after 10, whatever the clock says") {
  Node node;
  node.core.allocate(kTap, {"tap:1"});
  for (const int later : {300, 599}) {
    Core next{devices::Pools::parse(kTapConfig), node.places()};
    for (const int look : {0, 40}) next.reconcile(kOthers, in(later - 40 + look));
    CHECK(node.entry());
  }
  Core last{devices::Pools::parse(kTapConfig), node.places()};
  for (const int later : {620, 660}) last.reconcile(kOthers, in(later));
  CHECK_FALSE(node.entry());
}

TEST_CASE("a promise of before the boot, and of an earlier version, begins with the first look") {
  for (const std::optional<devices::Moment>& since :
       {std::optional<devices::Moment>(), std::optional<devices::Moment>({"another boot", 5})}) {
    Node node;
    node.ledger().put({.id = "tap:1", .resource = kTap, .promised = 7, .since = since});
    for (const int later : {0, 550}) {
      Core next{devices::Pools::parse(kTapConfig), node.places()};
      for (const int look : {0, 40}) CHECK(next.reconcile(kOthers, in(later + look)));
    }
    CHECK(node.entry()->since->boot == devices::boot_id());
    Core last{devices::Pools::parse(kTapConfig), node.places()};
    for (const int later : {610, 650}) last.reconcile(kOthers, in(later));
    CHECK_FALSE(node.entry());
  }
}

TEST_CASE("the devices of an Allocate have one time, which no other Allocate has") {
  Node node;
  node.core.allocate(kTap, {"tap:1", "tap:2"});
  ::usleep(2000);
  node.core.allocate(kTap, {"tap:3"});
  CHECK(node.entry("tap:1")->since == node.entry("tap:2")->since);
  CHECK(node.entry("tap:3")->is_later_than(*node.entry("tap:1")->since));
}

TEST_CASE("a device of the pod that the kubelet does not list fails the claim") {
  Node node;
  node.core.allocate(kTap, {"tap:1"});
  node.core.reconcile({{"shop", "web-0", {{kTap, {"tap:1"}}}}}, in(1));  // the name alone
  CHECK(code_of([&] { node.claim(kPod, {}); }) == cni::Code::kTryAgainLater);
  node.claim(kPod, {"tap:1"});
  CHECK(code_of([&] { node.claim(kPod, {}); }) == cni::Code::kTryAgainLater);
}

TEST_CASE("a claim restores an entry that the ledger has lost") {
  Node node;
  CHECK(node.claim(kPod, {"tap:1"}) == Named{"tap:1"});
  CHECK(node.entry()->pod == kPod);
}

TEST_CASE("each pod is a matter of the kubelet before the first list, and while an entry is torn") {
  Node node;
  CHECK(node.core.concerns(kPod));
  node.core.reconcile(kOthers, in(0));
  CHECK_FALSE(node.core.concerns(kPod));
  const std::string torn = node.folder.file("ledger") + "/tap:1";
  std::ofstream(torn) << "torn";
  CHECK(node.core.concerns(kPod));
  const std::vector<devices::PodDevices> listed = {{"shop", "web-0", {{kTap, {"tap:1"}}}}};
  for (const int later : {0, 40, 80}) node.core.reconcile(listed, in(later));
  CHECK(cni::Dir::exists(torn));  // the pod's ADD comes
  for (const int later : {100, 140}) node.core.reconcile(kOthers, in(later));
  CHECK_FALSE(cni::Dir::exists(torn));
  CHECK_FALSE(node.core.concerns(kPod));
  std::ofstream(torn) << R"({"format":9})";
  for (const int later : {200, 240, 280}) node.core.reconcile(kOthers, in(later));
  CHECK(cni::Dir::exists(torn));
}

TEST_CASE("a holder whose promise is lost gets a new one") {
  Node node;
  node.ledger().put_holder("tap:1", {.resource = kTap, .plugins = "[]"});
  CHECK(node.claim(kPod, {"tap:1"}) == Named{"tap:1"});
  CHECK(node.entry("tap:1")->plugins != "[]");
  CHECK(node.entry("tap:1")->holder);
}

TEST_CASE("a device is released after two looks, unless a container holds it") {
  Node node;
  node.core.allocate(kTap, {"tap:1", "tap:2"});
  node.claim(kPod, {"tap:1", "tap:2"});
  node.ledger().put_holder("tap:2", {});
  CHECK_FALSE(node.core.reconcile(kOthers, in(100)));
  CHECK(node.entry());
  node.core.reconcile(kOthers, in(131));
  CHECK_FALSE(node.entry());
  CHECK(node.entry("tap:2"));
}

TEST_CASE("a kubelet that does not know its pods yet frees no device") {
  Node node;
  node.core.allocate(kTap, {"tap:1", "tap:2"});
  node.claim(kPod, {"tap:1"});
  for (const int later : {1000, 2000, 3000}) node.core.reconcile({}, in(later));
  CHECK(node.entry("tap:1"));
  CHECK(node.entry("tap:2"));
  CHECK(node.core.concerns({"shop", "plain", "u3"}));
}

TEST_CASE("a device is not released as long as the kubelet has the folder of its pod") {
  Node node;
  node.core.allocate(kTap, {"tap:1"});
  node.claim(kPod, {"tap:1"});
  std::filesystem::create_directories(node.places().pods + "/u1");
  for (const int later : {100, 140, 180, 220}) node.core.reconcile(kOthers, in(later));
  CHECK(node.entry());
  std::filesystem::remove(node.places().pods + "/u1");
  for (const int later : {260, 300}) node.core.reconcile(kOthers, in(later));
  CHECK_FALSE(node.entry());
}

TEST_CASE("on a node without any pod a device is released if the pod's folder was seen removed") {
  Node node;
  node.core.allocate(kTap, {"tap:1", "tap:2"});
  node.claim(kPod, {"tap:1"});
  const std::string pods = node.places().pods;
  std::int64_t later = 1000;
  const auto look_twice = [&] {
    for (int n = 0; n < 3; ++n) node.core.reconcile({}, in(later += 400));
  };
  std::filesystem::create_directories(pods + "/u1");
  look_twice();
  CHECK(node.entry("tap:1"));
  std::filesystem::rename(pods + "/u1", pods + "/u2");
  look_twice();
  CHECK_FALSE(node.entry("tap:1"));
  CHECK(node.entry("tap:2"));  // it may be promised to the pod of that folder
  std::filesystem::remove(pods + "/u2");
  look_twice();
  CHECK_FALSE(node.entry("tap:2"));
}

TEST_CASE("a promise that no ADD claims is logged once, with the pod if PodResources names it") {
  Node node;
  node.core.allocate(kTap, {"tap:1", "tap:2"});
  const auto look = [&](std::int64_t later) {
    return log_of([&] {
      node.core.reconcile({{"shop", "web-1", {{kTap, {"tap:2"}}}}}, in(later));
    });
  };
  CHECK(look(20).empty());
  const std::string said = look(50);
  CHECK(said.find(R"("level":"warning","what":"claim device: no ADD)") != said.npos);
  CHECK(said.find(R"("device":"tap:1")") != said.npos);
  CHECK(said.find(R"("level":"error","what":"claim device: no ADD)") != said.npos);
  CHECK(said.find(R"("device":"tap:2","pod":"shop/web-1")") != said.npos);
  CHECK(look(80).empty());
}

TEST_CASE("devices that another instance with another config promises are a pod's, too") {
  Node node;
  Core other(devices::Pools::parse(R"({"pools": []})"), node.places());
  CHECK_FALSE(other.has_resource(kTap));
  node.core.allocate(kTap, {"tap:1"});
  CHECK(other.has_resource(kTap));
  CHECK(other.claim(kPod, listed({"tap:1"}), in(0)) == Named{"tap:1"});
}

TEST_CASE("a pod keeps devices of a resource that the config has no more") {
  Node node;
  node.core.allocate(kTap, {"tap:1"});
  Core other(devices::Pools::parse(R"({"pools": []})"), {.ledger = node.folder.file("ledger"),
                                                         .cdi = "",
                                                         .device_info = "",
                                                         .sysfs = node.folder.path(),
                                                         .metrics = ""});
  CHECK(other.has_resource(kTap));
  CHECK(other.claim(kPod, listed({"tap:1"}), in(0)) == Named{"tap:1"});
}

TEST_CASE("callbacks tell of changed offers and of allocations") {
  Node node;
  int changed = 0, allocated = 0;
  node.core.subscribe([&] { ++changed; });
  node.core.on_allocate([&] { ++allocated; });
  node.core.refresh();
  CHECK(changed == 0);
  node.core.allocate(kTap, {"tap:1"});
  CHECK(allocated == 1);
}
