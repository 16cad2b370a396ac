#include "plugins/devices/agent/dra/status/device_status.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

using devices::Claim;
using devices::Entry;
using devices::Holder;
using devices::Pod;
using devices::dra::device_status;
using devices::dra::StatusOwner;
using devices::dra::with_devices;
using Json = nlohmann::json;

namespace {

const StatusOwner kUs{"d.example", "n1"};
const Pod kShopPod{"shop", "web-0", "u1"};

Entry prepared_entry() {
  Entry out{.id = "netdev:eth1", .resource = "v.example/nic"};
  out.promised = 1;
  out.pod = kShopPod;
  out.claim = Claim{};
  out.claim->uid = "c1";
  out.claim->device = "netdev-eth1";
  return out;
}

Entry held_with(const std::string& result) {
  Entry out = prepared_entry();
  out.holder = Holder{.interface = "net1", .pod = kShopPod, .result = result};
  return out;
}

Json claim_with(const Json& devices) {
  return {
      {"status",
       {{"allocation",
         {{"devices",
           {{"results",
             {{{"driver", "d.example"}, {"pool", "n1"}, {"device", "netdev-eth1"}},
              {{"driver", "d.example"}, {"pool", "n1"}, {"device", "s"}, {"shareID", "1"}}}}}}}},
        {"devices", devices}}}};
}

std::string reason_of(const Entry& entry) {
  return device_status(entry, kUs)["conditions"][0]["reason"];
}

}  // namespace

TEST_CASE("a device is ready while it is attached to the pod of the claim") {
  CHECK(reason_of(prepared_entry()) == "Prepared");
  CHECK(reason_of(held_with("")) == "Attaching");
  CHECK(reason_of(held_with("{}")) == "Attached");
  Entry earlier = held_with("{}");
  earlier.holder->pod = Pod{"shop", "web-0", "u0"};
  CHECK(reason_of(earlier) == "Prepared");
  earlier.holder->pod.reset();
  CHECK(reason_of(earlier) == "Prepared");
}

TEST_CASE("the network of a device is what ADD returned of its interface") {
  const Json status = device_status(
      held_with(
          R"({"interfaces":[{"name":"net1","mac":"a"},{"name":"net1","mac":"b","sandbox":"/n"}],
               "ips":[{"address":"10.0.0.2/24","interface":1},{"address":"10.0.0.3/24"},
                      {"address":"10.0.0.4/24","interface":0}]})"),
      kUs);
  CHECK(status["networkData"] == Json({{"interfaceName", "net1"},
                                       {"hardwareAddress", "b"},
                                       {"ips", {"10.0.0.2/24", "10.0.0.3/24"}}}));
}

TEST_CASE("a result of any other form gives the name alone") {
  for (const char* const result : {"{}", "[]", "7", "x", R"({"interfaces":7,"ips":{}})",
                                   R"({"interfaces":[7],"ips":[7,{},{"address":7}]})"}) {
    INFO(result);
    CHECK(device_status(held_with(result), kUs)["networkData"] ==
          Json({{"interfaceName", "net1"}}));
  }
}

TEST_CASE("devices of others stay, and what this node does not have any more goes") {
  const Json others = {{{"driver", "other.example"}, {"pool", "n1"}, {"device", "x"}},
                       {{"driver", "d.example"}, {"pool", "n2"}, {"device", "netdev-eth1"}}};
  Json before = others;
  before.push_back({{"driver", "d.example"}, {"pool", "n1"}, {"device", "gone"}});
  const Json after =
      with_devices(claim_with(before), {device_status(prepared_entry(), kUs)}, kUs, 0);
  REQUIRE(after.size() == 3);
  CHECK(after[0] == others[0]);
  CHECK(after[1] == others[1]);
  CHECK(after[2]["device"] == "netdev-eth1");
  CHECK(after[2]["conditions"][0]["lastTransitionTime"] == "1970-01-01T00:00:00Z");
  CHECK(with_devices(claim_with(before), {}, kUs, 0) == others);
}

TEST_CASE("a status that says the same again is the same") {
  const auto ours = {device_status(prepared_entry(), kUs)};
  const Json once = with_devices(claim_with(Json::array()), ours, kUs, 100);
  CHECK(with_devices(claim_with(once), ours, kUs, 200) == once);
}

TEST_CASE("a time is that of the last change of the status") {
  const Json once =
      with_devices(claim_with(Json::array()), {device_status(prepared_entry(), kUs)}, kUs, 100);
  const Json attaching =
      with_devices(claim_with(once), {device_status(held_with(""), kUs)}, kUs, 200);
  CHECK(attaching[0]["conditions"][0]["lastTransitionTime"] == "1970-01-01T00:01:40Z");
  const Json attached =
      with_devices(claim_with(attaching), {device_status(held_with("{}"), kUs)}, kUs, 300);
  CHECK(attached[0]["conditions"][0]["lastTransitionTime"] == "1970-01-01T00:05:00Z");
}

TEST_CASE(
    "shares of a device are devices of their own, and one that is not allocated is not written") {
  Entry share = prepared_entry();
  share.claim->device = "s";
  share.claim->share = "1";
  Entry other = share;
  other.claim->share = "2";
  const Json after = with_devices(claim_with(Json::array()),
                                  {device_status(share, kUs), device_status(other, kUs)}, kUs, 0);
  REQUIRE(after.size() == 1);
  CHECK(after[0]["shareID"] == "1");
}

TEST_CASE("a claim of any other form is passed over") {
  const std::vector<Json> ours = {device_status(prepared_entry(), kUs)};
  for (const Json& odd :
       {Json(), Json(7), Json::array(), Json({{"status", 7}}),
        Json({{"status",
               {{"devices", 7},
                {"allocation", {{"devices", {{"results", {7, "x", nullptr}}}}}}}}})}) {
    CHECK(with_devices(odd, ours, kUs, 0).empty());
  }
}
