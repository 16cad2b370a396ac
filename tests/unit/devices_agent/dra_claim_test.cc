#include <doctest/doctest.h>

#include <string>

#include "libcni/common/error.h"
#include "plugins/devices/agent/dra/claim.h"

using devices::dra::Allocation;
using devices::dra::allocation_in;
using devices::dra::Asked;
using devices::dra::Config;
using devices::dra::Json;

namespace {

const Asked kAsked{
    .uid = "c1", .space = "shop", .name = "web-0-nic", .driver = "devices.patchbay", .pool = "n1"};

Json result(const std::string& device) {
  return {{"driver", "devices.patchbay"}, {"pool", "n1"}, {"device", device}, {"request", "nic"}};
}

Json claim(const Json& results, const Json& config = Json::array()) {
  return {
      {"metadata", {{"uid", "c1"}, {"name", "web-0-nic"}}},
      {"status",
       {{"allocation", {{"devices", {{"results", results}, {"config", config}}}}},
        {"reservedFor", Json::array({{{"resource", "pods"}, {"name", "web-0"}, {"uid", "p1"}}})}}}};
}

Json opaque(const char* source, const Json& parameters) {
  return {{"source", source},
          {"opaque", {{"driver", "devices.patchbay"}, {"parameters", parameters}}}};
}

std::string refusal(const Json& object) {
  try {
    static_cast<void>(allocation_in(object, kAsked));
  } catch (const cni::Error& e) {
    return e.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("what is allocated by this driver on this node is read") {
  Json other = result("gpu-0");
  other["driver"] = "gpu.example";
  Json shared = result("eth1-macvlan");
  shared["shareID"] = "s1";
  shared["consumedCapacity"] = {{"slots", "1"}, {"bandwidth", "200M"}};
  const Allocation out = allocation_in(claim(Json::array({result("a"), other, shared})), kAsked);
  REQUIRE(out.results.size() == 2);
  CHECK(out.results[0].device == "a");
  CHECK(out.results[1].share == "s1");
  CHECK(out.results[1].bandwidth == 200'000'000);
  CHECK(out.pod == devices::Pod{"shop", "web-0", "p1"});
}

TEST_CASE("parameters of classes come before those of the claim, others' are passed over") {
  Json foreign = opaque("FromClaim", {{"x", 1}});
  foreign["opaque"]["driver"] = "gpu.example";
  const Allocation out = allocation_in(
      claim(Json::array({result("a")}), Json::array({opaque("FromClaim", {{"n", 1}}), foreign,
                                                     opaque("FromClass", {{"n", 2}})})),
      kAsked);
  REQUIRE(out.configs.size() == 2);
  CHECK(out.configs[0].is_from_class);
  CHECK(out.configs[0].at == "status.allocation.devices.config[2].opaque.parameters");
  CHECK_FALSE(out.configs[1].is_from_class);
}

TEST_CASE("parameters are for a request, or for that of a subrequest") {
  Config one;
  CHECK(one.is_for("nic"));
  one.requests = {"nic"};
  CHECK(one.is_for("nic"));
  CHECK(one.is_for("nic/fast"));
  CHECK_FALSE(one.is_for("other"));
  one.requests = {"nic/fast"};
  CHECK(one.is_for("nic/fast"));
  CHECK_FALSE(one.is_for("nic/slow"));
  CHECK_FALSE(one.is_for("nic"));
}

TEST_CASE("a claim that is not one pod's is refused with a reason") {
  Json none = claim(Json::array({result("a")}));
  none["status"].erase("reservedFor");
  CHECK(refusal(none).find("no pod has reserved it") == 0);
  Json two = claim(Json::array({result("a")}));
  two["status"]["reservedFor"].push_back({{"resource", "pods"}, {"name", "b"}, {"uid", "p2"}});
  CHECK(refusal(two).find("2 pods have reserved it") == 0);
  Json group = claim(Json::array({result("a")}));
  group["status"]["reservedFor"][0] = {
      {"apiGroup", "scheduling.k8s.io"}, {"resource", "podgroups"}, {"name", "g"}, {"uid", "g1"}};
  CHECK(refusal(group) ==
        "it is reserved for podgroups 'g': this driver attaches devices to pods alone");
}

TEST_CASE("a claim that is another one's, or has nothing of this driver here, is refused") {
  Json other = claim(Json::array({result("a")}));
  other["metadata"]["uid"] = "c2";
  CHECK(refusal(other).find("with UID c2 and not c1") != std::string::npos);
  Json open = claim(Json::array({result("a")}));
  open["status"].erase("allocation");
  CHECK(refusal(open) == "it is not allocated (status.allocation is absent)");
  CHECK(refusal(claim(Json::array())) == "no device of driver devices.patchbay is allocated to it");
  Json away = claim(Json::array({result("a")}));
  away["status"]["allocation"]["devices"]["results"][0]["pool"] = "n2";
  CHECK(refusal(away).find("is of pool 'n2', this node's is 'n1'") != std::string::npos);
}

TEST_CASE("what this driver does not serve is refused") {
  Json admin = result("a");
  admin["adminAccess"] = true;
  CHECK(refusal(claim(Json::array({admin}))).find("asks for adminAccess") != std::string::npos);
  Json many = result("a");
  many["shareID"] = "s";
  many["consumedCapacity"] = {{"slots", "2"}};
  CHECK(refusal(claim(Json::array({many}))).find("consumes 2 slots") != std::string::npos);
  CHECK(refusal(claim(Json::array({result("a")}), Json::array({{{"source", "FromClaim"}}})))
            .find("not known") != std::string::npos);
  CHECK(refusal(claim(Json::array({result("a")}),
                      Json::array({opaque("FromClaim", std::string(40'000, 'x'))})))
            .find("more than 32768 bytes") != std::string::npos);
  CHECK(refusal(claim(Json(65, result("a")))).find("more than 64 elements") != std::string::npos);
  for (const Json& wrong : {Json(), Json(1), Json::array(), Json{{"metadata", 1}}}) {
    CHECK(refusal(wrong) != "none");
  }
}
