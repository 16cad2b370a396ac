#include "plugins/vlan/conf.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/unit/defaults.h"

using netlink::Vlan;
using vlan::Conf;

namespace {

Conf parse(nlohmann::json conf) {
  cni::Request request;
  request.network = "net";
  request.conf = std::move(conf);
  return Conf::parse(request);
}

nlohmann::json with(const std::string& keys) {
  return nlohmann::json::parse(R"({"master": "up0")" + (keys.empty() ? "" : ", " + keys) + "}");
}

std::string complaint(const nlohmann::json& conf) {
  try {
    parse(conf);
  } catch (const cni::Error& e) {
    return cni::cat(static_cast<unsigned>(e.code()), " ", e.what());
  }
  return "";
}

}  // namespace

TEST_CASE("a config with nothing but the master has the reference's defaults") {
  const Conf conf = parse(with(""));
  CHECK(conf.master == "up0");
  CHECK_FALSE(conf.link_in_container);
  CHECK(conf.mtu == 0);
  CHECK(conf.ipam_type.empty());
  CHECK_FALSE(conf.dns);
  CHECK(conf.data() == Vlan{.id = 0, .protocol = Vlan::k8021q});
}

TEST_CASE("the defaults are those of the table") {
  CHECK(parse(with_defaults(with(""), vlan::kManual)) == parse(with("")));
}

TEST_CASE("the master is required, in the reference's words") {
  const std::string wanted =
      "\"master\" field is required. It specifies the host interface name to create the VLAN for";
  for (const auto& conf : {nlohmann::json::object(), nlohmann::json{{"master", ""}},
                           nlohmann::json{{"master", nullptr}}}) {
    CHECK(complaint(conf) == "7 " + wanted);
  }
}

TEST_CASE("a VLAN ID is from 0 to 4094") {
  CHECK(parse(with(R"("vlanId": 4094)")).data().id == 4094);
  for (const char* const id : {"-1", "4095", "70000"}) {
    CHECK(complaint(with(cni::cat(R"("vlanId": )", id)))
              .starts_with(
                  cni::cat("7 invalid VLAN ID ", id, " (must be between 0 and 4095 inclusive)")));
  }
  CHECK(complaint(with(R"("vlanId": 1.5)")).starts_with("7 vlanId: "));
}

TEST_CASE("the protocol is 802.1Q or 802.1ad") {
  CHECK(parse(with(R"("protocol": "802.1Q")")).data().protocol == 0x8100);
  CHECK(parse(with(R"("protocol": "802.1ad")")).data().protocol == 0x88a8);
  CHECK(complaint(with(R"("protocol": "QinQ")"))
            .starts_with("7 protocol: expected \"802.1Q\" or \"802.1ad\""));
}

TEST_CASE("maps are lists of FROM:TO") {
  const Vlan data =
      parse(with(R"("egressQosMap": ["0:1", "4294967295:7"], "ingressQosMap": ["7:4294967295"])"))
          .data();
  CHECK(data.egress == Vlan::Priorities{{0, 1}, {4294967295, 7}});
  CHECK(data.ingress == Vlan::Priorities{{7, 4294967295}});
}

TEST_CASE("a wrong mapping is refused at its place, not cut to three bits as by the kernel") {
  for (const char* const text : {"", ":", "1", "1:", ":1", "1:8", "1:2:3", "a:1", "-1:1", "+1:1",
                                 " 1:1", "1:1 ", "4294967296:1"}) {
    CHECK(complaint(with(cni::cat(R"("egressQosMap": ["0:0", ")", text, "\"]")))
              .starts_with("7 egressQosMap[1]: expected \"FROM:TO\""));
  }
  CHECK(complaint(with(R"("ingressQosMap": ["8:1"])")).starts_with("7 ingressQosMap[0]: expected"));
  CHECK(complaint(with(R"("ingressQosMap": [7])")).starts_with("7 ingressQosMap[0]: "));
  CHECK(complaint(with(R"("ingressQosMap": "7:1")")).starts_with("7 ingressQosMap: "));
}

TEST_CASE("a priority that is mapped twice is refused") {
  CHECK(complaint(with(R"("egressQosMap": ["3:1", "03:2"])"))
            .starts_with("7 egressQosMap[1]: priority 3 is mapped twice"));
}

TEST_CASE("mtu is kept as written, since the master's decides") {
  CHECK(parse(with(R"("mtu": -100)")).mtu == -100);
  CHECK(parse(with(R"("mtu": 1600)")).mtu == 1600);
  CHECK(complaint(with(R"("mtu": "1500")")).starts_with("7 mtu: "));
}
