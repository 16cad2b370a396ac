#include "plugins/portmap/conf.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "libcni/common/error.h"
#include "tests/unit/defaults.h"

using portmap::BackendName;
using portmap::Conf;
using portmap::OnConflict;
using portmap::Protocol;

namespace {

cni::Request request(const std::string& keys) {
  cni::Request out;
  out.network = "net";
  out.conf = nlohmann::json::parse("{" + keys + "}");
  return out;
}

Conf parse(const std::string& keys) { return Conf::parse(request(keys)); }

std::string complaint(const std::string& keys) {
  try {
    parse(keys);
  } catch (const cni::Error& e) {
    return cni::cat(static_cast<unsigned>(e.code()), " ", e.what());
  }
  return "";
}

std::string mappings(const std::string& entries) {
  return R"("runtimeConfig": {"portMappings": [)" + entries + "]}";
}

}  // namespace

TEST_CASE("without keys the defaults are the reference's, but for the backend") {
  const Conf conf = parse("");
  CHECK_FALSE(conf.backend);
  CHECK(conf.options == portmap::Options{});
  CHECK(conf.options.snat);
  CHECK(conf.options.mark_bit == 13);
  CHECK(conf.on_conflict == OnConflict::kRefuse);
  CHECK(conf.mappings.empty());
}

TEST_CASE("what the table calls the default is what holds without the key") {
  cni::Request with = request("");
  with.conf = with_defaults(with.conf, portmap::kManual);
  CHECK(with.conf->size() > 3);
  CHECK(Conf::parse(with) == Conf::parse(request("")));
}

TEST_CASE("a mapping has ports, a protocol in any case, and perhaps an address") {
  const Conf conf = parse(mappings(R"({"hostPort": 8080, "containerPort": 80, "protocol": "TCP"},
      {"HostPort": 53, "containerPort": 5353, "protocol": "udp", "hostIP": "192.0.2.1"},
      {"hostPort": 9, "containerPort": 9, "protocol": "sctp", "hostIP": ""},
      {"hostPort": 8081, "containerPort": 80, "protocol": "tcp", "hostIP": "::ffff:192.0.2.1"})"));
  REQUIRE(conf.mappings.size() == 4);
  CHECK(conf.mappings[0] == portmap::Mapping{8080, 80, Protocol::kTcp, {}});
  CHECK(conf.mappings[1].host_ip == netlink::Ip::parse("192.0.2.1"));
  CHECK(conf.mappings[2].protocol == Protocol::kSctp);
  CHECK_FALSE(conf.mappings[2].host_ip);
  CHECK(conf.mappings[3].host_ip == netlink::Ip::parse("192.0.2.1"));
}

TEST_CASE("a wrong mapping is refused with its place, its value and what was expected") {
  CHECK(complaint(mappings(R"({"hostPort": 0, "containerPort": 80, "protocol": "tcp"})")) ==
        "7 failed to parse config: Invalid host port number: 0");
  CHECK(complaint(mappings(R"({"hostPort": 0, "containerPort": -1, "protocol": "tcp"})")) ==
        "7 failed to parse config: Invalid container port number: -1");
  CHECK(complaint(mappings(R"({"hostPort": 65536, "containerPort": 80, "protocol": "tcp"})")) ==
        "7 runtimeConfig.portMappings[0].hostPort: expected an integer from 1 to 65535: 65536");
  CHECK(complaint(mappings(R"({"hostPort": 1, "containerPort": 80, "protocol": "icmp"})")) ==
        "7 runtimeConfig.portMappings[0].protocol: expected \"tcp\", \"udp\" or \"sctp\": "
        "\"icmp\"");
  CHECK(complaint(mappings(R"({"hostPort": 1, "containerPort": 80, "protocol": "tcp",
                               "hostIP": "1.2.3"})")) ==
        "7 runtimeConfig.portMappings[0].hostIP: not an IP address: \"1.2.3\"");
  CHECK(complaint(mappings(R"({"hostPort": 1, "containerPort": 80, "protocol": "tcp",
                               "hostIP": "224.0.0.1"})")) ==
        "7 runtimeConfig.portMappings[0].hostIP: expected a unicast address of the node: "
        "\"224.0.0.1\"");
  for (const auto& [protocol, found] :
       {std::pair(R"(, "protocol": "")", "\"\""), std::pair("", "the key is missing")}) {
    CHECK(complaint(mappings(cni::cat(R"({"hostPort": 1, "containerPort": 80)", protocol, "}"))) ==
          cni::cat("7 runtimeConfig.portMappings[0].protocol: expected \"tcp\", \"udp\" or "
                   "\"sctp\": ",
                   found));
  }
  CHECK(complaint(mappings(R"({"hostPort": 1, "containerPort": 80, "protocol": "tcp"},
                              {"hostPort": 1, "containerPort": 81, "protocol": "tcp"})")) ==
        "7 runtimeConfig.portMappings[1].hostPort: mapped to container port 80 already: 1");
  CHECK(complaint(mappings(R"({"hostPort": 1, "containerPort": 80, "protocol": "tcp"},
                              {"hostPort": 1, "containerPort": 81, "protocol": "tcp",
                               "hostIP": "0.0.0.0"})")) ==
        "7 runtimeConfig.portMappings[1].hostPort: mapped to container port 80 already: 1");
}

TEST_CASE("the backend follows from the options unless it is given") {
  CHECK(parse(R"("backend": "nftables")").backend == BackendName::kNftables);
  CHECK(parse(R"("externalSetMarkChain": "KUBE-MARK-MASQ")").backend == BackendName::kIptables);
  CHECK(parse(R"("conditionsV6": ["!", "-s", "fd00::/8"])").backend == BackendName::kIptables);
  CHECK(parse(R"("conditionsV4": ["ip", "saddr", "192.0.2.0/24"])").backend ==
        BackendName::kNftables);
  CHECK_FALSE(parse(R"("conditionsV4": [])").backend);
  CHECK_FALSE(parse(R"("conditionsV4": [""])").backend);
}

TEST_CASE("options for the other backend are refused in the reference's words") {
  CHECK(complaint(R"("backend": "iptables", "conditionsV4": ["ip saddr 192.0.2.1"],
                     "conditionsV6": ["ip6 saddr ::1"])") ==
        "7 failed to parse config: iptables backend was requested but configuration contains "
        "nftables-specific options "
        "[conditionsV4 conditionsV6]");
  CHECK(
      complaint(R"("backend": "nftables", "externalSetMarkChain": "X", "conditionsV4": ["-s", "a"],
                     "conditionsV6": ["!", "-s", "b"])") ==
      "7 failed to parse config: nftables backend was requested but configuration contains "
      "iptables-specific options "
      "[externalSetMarkChain conditionsV4 conditionsV6]");
  const auto because = [](const char* keys) {
    try {
      parse(keys);
    } catch (const cni::Error& e) {
      return e.details();
    }
    return std::string();
  };
  constexpr const char* kBoth = R"("conditionsV4": ["-s", "a"], "conditionsV6": ["ip6 saddr ::1"])";
  CHECK(complaint(kBoth) ==
        "7 failed to parse config: iptables backend was requested but configuration contains "
        "nftables-specific options "
        "[conditionsV6]");
  CHECK(because(kBoth) == "iptables because of conditionsV4");
  for (const char* const one :
       {R"("externalSetMarkChain": "X")", R"("conditionsV6": ["!", "-d", "::1"])"}) {
    const std::string keys = cni::cat(R"("backend": "nftables", )", one);
    const std::string key(one + 1, std::string_view(one).find('"', 1) - 1);
    CHECK(complaint(keys).ends_with(cni::cat("iptables-specific options [", key, "]")));
    CHECK(because(keys.c_str()) == "nftables because of backend");
  }
  for (const char* const backend : {"x", ""}) {
    CHECK(complaint(cni::cat(R"("backend": ")", backend, "\"")) ==
          cni::cat("7 failed to parse config: unrecognized backend \"", backend, "\""));
  }
  cni::Request check = request(R"("backend": "x")");
  check.command = cni::Command::kCheck;
  CHECK_THROWS_WITH_AS(Conf::parse(check), "unrecognized backend \"x\"", cni::Error);
}

TEST_CASE("options that contradict each other or make no sense are refused") {
  CHECK(complaint(R"("markMasqBit": 32)") ==
        "7 failed to parse config: MasqMarkBit must be between 0 and 31");
  CHECK(complaint(R"("markMasqBit": 5, "externalSetMarkChain": "X")") ==
        "7 failed to parse config: Cannot specify externalSetMarkChain and markMasqBit");
  CHECK(complaint(R"("hostPortConflict": "ignore")") ==
        "7 hostPortConflict: expected \"refuse\", \"refuse-claimed\" or \"replace\": \"ignore\"");
}

TEST_CASE("denied ports are single, ranges, and of one protocol or all") {
  const Conf conf = parse(R"("deniedHostPorts": [22, "443", "10250-10259", "53/udp"])");
  REQUIRE(conf.denied.size() == 4);
  CHECK((conf.denied[0].first == 22 && conf.denied[0].last == 22 && !conf.denied[0].protocol));
  CHECK(conf.denied[1].last == 443);
  CHECK((conf.denied[2].first == 10250 && conf.denied[2].last == 10259));
  CHECK((conf.denied[3].first == 53 && conf.denied[3].protocol == Protocol::kUdp));
  for (const char* wrong :
       {"\"\"", "\"x\"", "0", "65536", "-1", "\"0\"", "\"65536\"", "\"9-8\"", "\"1-\"", "\"-1\"",
        "\"1-2-3\"", "\"1/icmp\"", "\"1/\"", "\"1 \"", "\" 1\"", "null", "1.5", "true", "[22]"}) {
    CAPTURE(wrong);
    CHECK(complaint(cni::cat("\"deniedHostPorts\": [", wrong, "]"))
              .find("deniedHostPorts[0]: expected") != std::string::npos);
  }
}

TEST_CASE("DEL makes out what it can") {
  using portmap::readable_mappings;
  const std::string good = R"({"hostPort": 80, "containerPort": 80, "protocol": "tcp"})";
  CHECK(readable_mappings(request(mappings(good + R"(, {"hostPort": "x"}, 7)"))).size() == 1);
  CHECK(readable_mappings(request(R"("runtimeConfig": {"portMappings": 7})")).empty());
  CHECK(readable_mappings(request(R"("runtimeConfig": "x")")).empty());
  CHECK(readable_mappings(request("\"backend\": 7, " + mappings(good))).size() == 1);
}
