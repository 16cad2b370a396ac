#include "libcni/config/result.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "libcni/common/error.h"

using cni::Cidr;
using cni::Code;
using cni::Error;
using cni::Ip;
using cni::Result;
using cni::result_from;
using cni::to_json;
using cni::Version;
using nlohmann::json;

namespace {

Cidr cidr(std::string_view text) { return Cidr::parse(text).value(); }

// Everything that the newest spec can say.
Result full() {
  return {
      .interfaces = {{.name = "cni0", .mac = "0a:00:00:00:00:01"},
                     {.name = "eth0",
                      .mac = "0a:00:00:00:00:02",
                      .mtu = 1400,
                      .sandbox = "/run/netns/x",
                      .socket_path = "/run/s",
                      .pci_id = "0000:00:1f.6"}},
      .ips = {{.cidr = cidr("10.1.2.3/24"), .gateway = Ip::parse("10.1.2.1"), .interface = 0},
              {.cidr = cidr("2001:db8::3/64"),
               .gateway = Ip::parse("2001:db8::1"),
               .interface = 1}},
      .routes = {{.dst = cidr("0.0.0.0/0"), .gateway = Ip::parse("10.1.2.1")},
                 {.dst = cidr("2001:db8:1::/48"),
                  .mtu = 1400,
                  .advmss = 1360,
                  .priority = 10,
                  .table = 254,
                  .scope = 0}},
      .dns = {.nameservers = {"10.1.2.1"}, .domain = "d", .search = {"s"}, .options = {"o"}},
  };
}

std::string text(const Result& result, Version as) { return to_json(result, as).dump(); }

// As what the old formats drop were not there.
Result without_new_fields(Result result) {
  for (auto& one : result.interfaces) {
    one.mtu = 0;
    one.socket_path.clear();
    one.pci_id.clear();
  }
  return result;
}

Result through(const Result& result, Version as) {
  return result_from(json::parse(text(result, as)), as);
}

std::string refusal(const json& doc, Version assumed, Code expected) {
  try {
    result_from(doc, assumed);
  } catch (const Error& e) {
    CHECK(e.code() == expected);
    return e.what();
  }
  return "(accepted)";
}

}  // namespace

TEST_CASE("1.x prints all keys in alphabetical order at every level") {
  for (const Version as : {Version::k1_0_0, Version::k1_1_0}) {
    CHECK(
        text(full(), as) ==
        std::string(R"({"cniVersion":")") + std::string(cni::str(as)) +
            R"(","dns":{"domain":"d","nameservers":["10.1.2.1"],"options":["o"],"search":["s"]},)"
            R"("interfaces":[{"mac":"0a:00:00:00:00:01","name":"cni0"},)"
            R"({"mac":"0a:00:00:00:00:02","mtu":1400,"name":"eth0","pciID":"0000:00:1f.6",)"
            R"("sandbox":"/run/netns/x","socketPath":"/run/s"}],)"
            R"("ips":[{"address":"10.1.2.3/24","gateway":"10.1.2.1","interface":0},)"
            R"({"address":"2001:db8::3/64","gateway":"2001:db8::1","interface":1}],)"
            R"("routes":[{"dst":"0.0.0.0/0","gw":"10.1.2.1"},)"
            R"({"advmss":1360,"dst":"2001:db8:1::/48","mtu":1400,"priority":10,"scope":0,"table":254}]})");
  }
}

TEST_CASE("0.3 and 0.4 print the family of an address and not the new interface fields") {
  for (const Version as : {Version::k0_3_0, Version::k0_3_1, Version::k0_4_0}) {
    CHECK(
        text(full(), as) ==
        std::string(R"({"cniVersion":")") + std::string(cni::str(as)) +
            R"(","interfaces":[{"name":"cni0","mac":"0a:00:00:00:00:01"},)"
            R"({"name":"eth0","mac":"0a:00:00:00:00:02","sandbox":"/run/netns/x"}],)"
            R"("ips":[{"version":"4","interface":0,"address":"10.1.2.3/24","gateway":"10.1.2.1"},)"
            R"({"version":"6","interface":1,"address":"2001:db8::3/64","gateway":"2001:db8::1"}],)"
            R"("routes":[{"dst":"0.0.0.0/0","gw":"10.1.2.1"},)"
            R"({"dst":"2001:db8:1::/48","mtu":1400,"advmss":1360,"priority":10,"table":254,"scope":0}],)"
            R"("dns":{"nameservers":["10.1.2.1"],"domain":"d","search":["s"],"options":["o"]}})");
  }
}

TEST_CASE("0.1 and 0.2 print one address of each family with its routes") {
  for (const Version as : {Version::k0_1_0, Version::k0_2_0}) {
    CHECK(text(full(), as) ==
          std::string(R"({"cniVersion":")") + std::string(cni::str(as)) +
              R"(","ip4":{"ip":"10.1.2.3/24","gateway":"10.1.2.1",)"
              R"("routes":[{"dst":"0.0.0.0/0","gw":"10.1.2.1"}]},)"
              R"("ip6":{"ip":"2001:db8::3/64","gateway":"2001:db8::1",)"
              R"("routes":[{"dst":"2001:db8:1::/48"}]},)"
              R"("dns":{"nameservers":["10.1.2.1"],"domain":"d","search":["s"],"options":["o"]}})");
  }
}

TEST_CASE("empty DNS is printed up to 0.4 and omitted from 1.0") {
  const Result result{.ips = {{.cidr = cidr("10.0.0.2/8")}}};
  CHECK(text(result, Version::k0_2_0) ==
        R"({"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.2/8"},"dns":{}})");
  CHECK(text(result, Version::k0_4_0) ==
        R"({"cniVersion":"0.4.0","ips":[{"version":"4","address":"10.0.0.2/8"}],"dns":{}})");
  CHECK(text(result, Version::k1_0_0) ==
        R"({"cniVersion":"1.0.0","ips":[{"address":"10.0.0.2/8"}]})");
}

TEST_CASE("an empty result is printed from 0.3 on") {
  CHECK(text({}, Version::k0_3_1) == R"({"cniVersion":"0.3.1","dns":{}})");
  CHECK(text({}, Version::k1_1_0) == R"({"cniVersion":"1.1.0"})");
}

TEST_CASE("interface index 0 is printed, an absent index is not") {
  const Result with{.interfaces = {{.name = "a"}},
                    .ips = {{.cidr = cidr("10.0.0.2/8"), .interface = 0}}};
  const Result without{.interfaces = {{.name = "a"}}, .ips = {{.cidr = cidr("10.0.0.2/8")}}};
  for (const Version as : {Version::k0_3_0, Version::k1_1_0}) {
    CHECK(to_json(with, as)["ips"][0]["interface"] == 0);
    CHECK_FALSE(to_json(without, as)["ips"][0].contains("interface"));
    CHECK(through(with, as) == with);
    CHECK(through(without, as) == without);
  }
}

TEST_CASE("an interface index that is out of range is passed on") {
  for (const char* index : {"1", "-1", "2147483648", "-9223372036854775808"}) {
    const auto doc = json::parse(cni::cat(
        R"({"interfaces": [{"name": "a"}], "ips": [{"address": "10.0.0.1/8", "interface": )", index,
        "}]}"));
    const Result result = result_from(doc, Version::k1_0_0);
    CHECK(*result.ips.at(0).interface >= result.interfaces.size());
    CHECK(to_json(result, Version::k1_0_0)["ips"][0]["interface"].dump() == index);
  }
}

TEST_CASE("the name of an interface is always printed") {
  CHECK(text({.interfaces = {{.name = ""}}}, Version::k1_0_0) ==
        R"({"cniVersion":"1.0.0","interfaces":[{"name":""}]})");
}

TEST_CASE("a route's table 0 and scope 0 are printed where they are stated") {
  const Result result{.routes = {{.dst = cidr("10.0.0.0/8"), .table = 0, .scope = 0}}};
  CHECK(through(result, Version::k1_1_0) == result);
  CHECK(through(result, Version::k0_3_1) == result);
}

TEST_CASE("1.x carries a result unchanged") {
  CHECK(through(full(), Version::k1_0_0) == full());
  CHECK(through(full(), Version::k1_1_0) == full());
}

TEST_CASE("0.3 and 0.4 carry all but the new interface fields") {
  for (const Version as : {Version::k0_3_0, Version::k0_3_1, Version::k0_4_0}) {
    CHECK(through(full(), as) == without_new_fields(full()));
  }
}

TEST_CASE("0.1 and 0.2 carry the first address of each family, routes and DNS") {
  const Result expected{
      .ips = {{.cidr = cidr("10.1.2.3/24"), .gateway = Ip::parse("10.1.2.1")},
              {.cidr = cidr("2001:db8::3/64"), .gateway = Ip::parse("2001:db8::1")}},
      .routes = {{.dst = cidr("0.0.0.0/0"), .gateway = Ip::parse("10.1.2.1")},
                 {.dst = cidr("2001:db8:1::/48")}},
      .dns = full().dns};
  for (const Version as : {Version::k0_1_0, Version::k0_2_0}) {
    CHECK(through(full(), as) == expected);
    CHECK(through(expected, as) == expected);
  }
}

TEST_CASE("0.2: a second address of a family and routes without an address are dropped") {
  Result result{.ips = {{.cidr = cidr("10.0.0.2/8")}, {.cidr = cidr("10.0.0.3/8")}},
                .routes = {{.dst = cidr("::/0"), .gateway = Ip::parse("fe80::1")},
                           {.dst = cidr("10.9.0.0/16")}}};
  CHECK(
      text(result, Version::k0_2_0) ==
      R"({"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.2/8","routes":[{"dst":"10.9.0.0/16"}]},"dns":{}})");
}

TEST_CASE("0.2: IPv4 stands before IPv6 whatever their order was") {
  const Result result{.ips = {{.cidr = cidr("2001:db8::2/64")}, {.cidr = cidr("10.0.0.2/8")}}};
  CHECK(
      text(result, Version::k0_1_0) ==
      R"({"cniVersion":"0.1.0","ip4":{"ip":"10.0.0.2/8"},"ip6":{"ip":"2001:db8::2/64"},"dns":{}})");
}

TEST_CASE("0.1 and 0.2 cannot carry a result without addresses") {
  for (const Version as : {Version::k0_1_0, Version::k0_2_0}) {
    try {
      to_json({.interfaces = {{.name = "eth0"}}}, as);
      FAIL("converted");
    } catch (const Error& e) {
      CHECK(std::string(e.what()) == "cannot convert: no valid IP addresses");
      CHECK(e.code() == Code::kIncompatibleVersion);
    }
  }
}

TEST_CASE("a result without a version is of the config's version") {
  CHECK(result_from(R"({"ips":[{"version":"4","address":"10.0.0.2/8"}]})"_json, Version::k0_4_0)
            .ips.size() == 1);
  CHECK(result_from(R"({"ip4":{"ip":"10.0.0.2/8"}})"_json, Version::k0_2_0).ips.size() == 1);
  CHECK(result_from(R"({"cniVersion":null,"ips":[{"address":"10.0.0.2/8"}]})"_json, Version::k1_1_0)
            .ips.size() == 1);
  CHECK(result_from(R"({"cniVersion":"","ips":[{"address":"10.0.0.2/8"}]})"_json, Version::k1_1_0)
            .ips.size() == 1);
  CHECK(result_from(R"({"cniVersion":"","ip4":{"ip":"10.0.0.2/8"}})"_json, Version::k0_2_0)
            .ips.size() == 1);
}

TEST_CASE("a result of another version of the same family is read") {
  const json ips = R"([{"version":"4","address":"10.0.0.2/8","gateway":""}])"_json;
  CHECK(result_from({{"cniVersion", "0.3.1"}, {"ips", ips}}, Version::k0_4_0).ips.size() == 1);
  CHECK(result_from({{"cniVersion", "1.0.0"}, {"ips", ips}}, Version::k1_1_0).ips.size() == 1);
  CHECK(result_from({{"cniVersion", "1.1.0"}, {"ips", ips}}, Version::k1_0_0).ips.size() == 1);
  CHECK(result_from(R"({"cniVersion":"0.1.0","ip6":{"ip":"::2/64"}})"_json, Version::k0_2_0)
            .ips.size() == 1);
  CHECK(result_from({{"CNIVersion", "0.3.1"}, {"ips", ips}}, Version::k0_4_0).ips.size() == 1);
}

TEST_CASE("a result of another family is refused in the reference's words") {
  CHECK(refusal({{"cniVersion", "0.4.0"}}, Version::k1_0_0, Code::kIncompatibleVersion) ==
        "result type supports [1.0.0 1.1.0] but unmarshalled CNIVersion is \"0.4.0\"");
  CHECK(refusal({{"cniVersion", "1.0.0"}}, Version::k0_3_0, Code::kIncompatibleVersion) ==
        "result type supports [0.3.0 0.3.1 0.4.0] but unmarshalled CNIVersion is \"1.0.0\"");
  CHECK(refusal({{"cniVersion", "0.3.0"}}, Version::k0_1_0, Code::kIncompatibleVersion) ==
        "result type supports [0.1.0 0.2.0] but unmarshalled CNIVersion is \"0.3.0\"");
  CHECK(refusal({{"cniVersion", "9.9.9"}}, Version::k1_1_0, Code::kIncompatibleVersion) ==
        "result type supports [1.0.0 1.1.0] but unmarshalled CNIVersion is \"9.9.9\"");
}

TEST_CASE("a malformed result is refused with the place") {
  const struct {
    const char *doc, *start;
  } table[] = {
      {"[]", "config: expected an object: []"},
      {R"({"cniVersion": 1})", "cniVersion: expected a string: 1"},
      {R"({"ips": {}})", "ips: expected a list: {}"},
      {R"({"ips": [5]})", "ips[0]: expected an object: 5"},
      {R"({"ips": [{}]})", "ips[0].address: expected a string: the key is missing"},
      {R"({"ips": [{"address": "10.0.0.1"}]})", "ips[0].address: expected an address with prefix"},
      {R"({"ips": [{"address": 10}]})", "ips[0].address: expected a string: 10"},
      {R"({"ips": [{"address": "10.0.0.1/8", "gateway": "x"}]})",
       "ips[0].gateway: not an IP address"},
      {R"({"ips": [{"address": "10.0.0.1/8", "interface": "0"}]})",
       "ips[0].interface: expected an integer: \"0\""},
      {R"({"interfaces": [{"name": 5}]})", "interfaces[0].name: expected a string: 5"},
      {R"({"routes": [{"dst": "x"}]})", "routes[0].dst: expected an address with prefix length"},
      {R"({"dns": []})", "dns: expected an object: []"},
  };
  for (const auto& row : table) {
    CAPTURE(row.doc);
    const std::string got = refusal(json::parse(row.doc), Version::k1_1_0, Code::kDecodingFailure);
    CHECK(got.substr(0, std::string_view(row.start).size()) == row.start);
  }
}

TEST_CASE("an interface keeps a MAC address that is not Ethernet's") {
  const json doc =
      R"({"interfaces":[{"name":"ib0","mac":"80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:11:22:33"}]})"_json;
  CHECK(result_from(doc, Version::k1_1_0).interfaces[0].mac.size() == 59);
}
