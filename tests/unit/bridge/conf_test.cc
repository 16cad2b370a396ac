#include "plugins/bridge/conf.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "plugins/common/firewall/ip_masq.h"
#include "tests/unit/defaults.h"

using bridge::Conf;

namespace {

cni::Request request(const std::string& keys, const std::string& args = "") {
  cni::Request out;
  out.network = "net";
  out.args = args;
  out.conf = nlohmann::json::parse("{" + keys + "}");
  return out;
}

Conf parse(const std::string& keys, const std::string& args = "") {
  return Conf::parse(request(keys, args));
}

std::string complaint(const std::string& keys, const std::string& args = "") {
  try {
    parse(keys, args);
  } catch (const cni::Error& e) {
    return cni::cat(static_cast<unsigned>(e.code()), " ", e.what());
  }
  return "";
}

std::string trunk_of(const Conf& conf) {
  std::string out;
  for (const auto& range : conf.trunk) {
    out += cni::cat(out.empty() ? "" : " ", unsigned{range.first});
    if (range.last != range.first) out += cni::cat("-", unsigned{range.last});
  }
  return out;
}

}  // namespace

TEST_CASE("an empty config has the reference's defaults") {
  const Conf conf = parse("");
  CHECK(conf.bridge == "cni0");
  CHECK_FALSE(conf.is_gateway);
  CHECK_FALSE(conf.ip_masq);
  CHECK_FALSE(conf.ip_masq_backend);
  CHECK(conf.mtu == 0);
  CHECK(conf.vlan == 0);
  CHECK_FALSE(conf.vlan_filtering);
  CHECK_FALSE(conf.preserve_default_vlan);
  CHECK_FALSE(conf.dns);
  CHECK_FALSE(conf.mac);
  CHECK(conf.ipam_type.empty());
}

TEST_CASE("what the table calls the default is what holds without the key") {
  cni::Request with = request("");
  with.conf = with_defaults(with.conf, bridge::kManual);
  CHECK(with.conf->size() > 10);
  CHECK(Conf::parse(with) == Conf::parse(request("")));
}

TEST_CASE("isDefaultGateway implies isGateway") {
  CHECK(parse(R"("isDefaultGateway": true)").is_gateway);
}

TEST_CASE("trunk entries become disjoint ascending ranges") {
  CHECK(trunk_of(parse(R"("vlanTrunk": [])")).empty());
  CHECK(trunk_of(parse(R"("vlanTrunk": [{"minID": 100, "maxID": 105}])")) == "100-105");
  CHECK(trunk_of(parse(R"("vlanTrunk": [{"id": 42}])")) == "42");
  CHECK(trunk_of(parse(R"("vlanTrunk": [{"id": 7}, {"minID": 1, "maxID": 3}, {"id": 4}])")) ==
        "1-4 7");
  CHECK(trunk_of(parse(R"("vlanTrunk": [{"id": 9, "minID": 8, "maxID": 10}])")) == "8-10");
  CHECK(trunk_of(parse(R"("vlanTrunk": [{"minID": 1, "maxID": 4094}])")) == "1-4094");
}

TEST_CASE("the access VLAN is left out of the trunk, whose flags would take its place") {
  CHECK(trunk_of(parse(R"("vlan": 101, "vlanTrunk": [{"minID": 100, "maxID": 102}])")) ==
        "100 102");
}

TEST_CASE("an empty trunk asks for VLAN filtering all the same") {
  CHECK(parse(R"("vlanTrunk": [])").vlan_filtering);
  CHECK(parse(R"("vlan": 5)").vlan_filtering);
}

TEST_CASE("wrong values are refused with the place, the value and what was expected") {
  const struct {
    const char *keys, *complaint;
  } table[] = {
      {R"("vlan": -100)", "7 invalid VLAN ID -100 (must be between 0 and 4094)"},
      {R"("vlan": 5000)", "7 invalid VLAN ID 5000 (must be between 0 and 4094)"},
      {R"("vlan": "5")", "7 vlan: expected an integer from -2147483648 to 2147483647: \"5\""},
      {R"("vlanTrunk": [{"maxID": 5}])",
       "7 minID and maxID should be configured simultaneously, minID is missing"},
      {R"("vlanTrunk": [{"id": 1}, {"minID": 5}])",
       "7 minID and maxID should be configured simultaneously, maxID is missing"},
      {R"("vlanTrunk": [{"minID": -1, "maxID": 5}])", "7 incorrect trunk minID parameter"},
      {R"("vlanTrunk": [{"minID": 1, "maxID": 4095}])", "7 incorrect trunk maxID parameter"},
      {R"("vlanTrunk": [{"minID": 7, "maxID": 5}])",
       "7 minID is greater than maxID in trunk parameter"},
      {R"("vlanTrunk": [{"id": 0}])", "7 incorrect trunk id parameter"},
      {R"("vlanTrunk": 5)", "7 vlanTrunk: expected a list: 5"},
      {R"("bridge": "")",
       "7 bridge: expected an interface name of 1 to 15 bytes without slash, colon, percent sign "
       "and white space: \"\""},
      {R"("bridge": "abridgewithalongname")",
       "7 bridge: expected an interface name of 1 to 15 bytes without slash, colon, percent sign "
       "and white space: \"abridgewithalongname\""},
      {R"("bridge": "abcdefghijkl", "vlan": 100, "isGateway": true)",
       "7 bridge: too long for the VLAN's gateway link 'abcdefghijkl.100', expected at most 15 "
       "bytes: "
       "\"abcdefghijkl\""},
      {R"("mtu": 67)", "7 mtu: expected 0 (the kernel's default) or 68 to 65535: 67"},
      {R"("mtu": 1500.5)", "7 mtu: expected an integer from 0 to 65535: 1500.5"},
      {R"("hairpinMode": true, "promiscMode": true)",
       "7 cannot set hairpin mode and promiscuous mode at the same time"},
      {R"("disableContainerInterface": true, "ipam": {"type": "static"})",
       "7 cannot use IPAM when DisableContainerInterface flag is set"},
      {R"("ipMasqBackend": "nft", "ipMasq": true, "ipam": {"type": "static"})",
       "7 unknown ipmasq backend \"nft\""},
      {R"("isGateway": "yes")", "7 isGateway: expected true or false: \"yes\""},
      {R"("ipam": [])", "7 ipam: expected an object: []"},
      {R"("runtimeConfig": {"mac": "02:00"})",
       "7 invalid args 02:00 for MAC addr: address 02:00: invalid MAC address"},
  };
  for (const auto& row : table) {
    CAPTURE(row.keys);
    CHECK(complaint(row.keys) == row.complaint);
  }
}

TEST_CASE("a null in the trunk is refused, not followed") {
  CHECK(complaint(R"("vlanTrunk": [null])").starts_with("7 vlanTrunk[0]: expected"));
}

TEST_CASE("MAC addresses: runtimeConfig beats args, which beats CNI_ARGS") {
  const std::string args = R"("args": {"cni": {"mac": "02:00:00:00:00:02"}})";
  const std::string runtime = R"("RuntimeConfig": {"mac": "02:00:00:00:00:03"})";
  CHECK(parse("", "MAC=02:00:00:00:00:01").mac->str() == "02:00:00:00:00:01");
  CHECK(parse(args, "MAC=02:00:00:00:00:01").mac->str() == "02:00:00:00:00:02");
  CHECK(parse(args + "," + runtime, "MAC=02:00:00:00:00:01").mac->str() == "02:00:00:00:00:03");
}

TEST_CASE("MAC addresses that no interface can have are refused") {
  CHECK(complaint("", "MAC=01:00:5e:00:00:01").starts_with("4 invalid args 01:00:5e:00:00:01 "));
  CHECK(complaint("", "MAC=00:00:00:00:00:00").starts_with("4 invalid args 00:00:00:00:00:00 "));
  CHECK(complaint("", "IP=10.0.0.1").starts_with("4 ARGS: unknown args"));
  CHECK(complaint("", "IP=10.0.0.1;IgnoreUnknown=1").empty());
}

TEST_CASE("dns counts where a list is there, even an empty one, or a domain") {
  CHECK_FALSE(parse(R"("dns": {})").dns);
  CHECK_FALSE(parse(R"("dns": {"domain": ""})").dns);
  CHECK(parse(R"("dns": {"nameservers": []})").dns);
  CHECK(parse(R"("dns": {"domain": "example.com"})").dns->domain == "example.com");
}

TEST_CASE("DEL reads past whatever is wrong in the config") {
  const cni::Request broken =
      request(R"("vlan": 9999, "bridge": 5, "ipMasq": "yes", "macspoofchk": 1)");
  CHECK(plugins::was_masqueraded(broken.reader()));
  CHECK_FALSE(plugins::was_masqueraded(request("").reader()));
}
