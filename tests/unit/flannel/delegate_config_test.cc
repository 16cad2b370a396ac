#include "plugins/flannel/delegate_config.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace {

using flannel::Conf;
using nlohmann::json;

cni::Request request(const std::string& keys) {
  cni::Request out;
  out.network = "net";
  out.conf = json::parse(R"({"name":"net")" + keys + "}");
  return out;
}

std::string config_of(const std::string& keys, const cni::SubnetEnv& env) {
  const cni::Request asked = request(keys);
  return flannel::delegate_config(asked, Conf::parse(asked), env);
}

std::string complaint(const std::string& keys) {
  try {
    config_of(keys, {});
  } catch (const cni::Error& e) {
    return cni::cat(static_cast<unsigned>(e.code()), " ", e.what());
  }
  return "";
}

TEST_CASE("what subnet.env does not have is left out of the delegate's config") {
  CHECK(
      config_of("", {}) ==
      R"({"ipam":{"routes":[],"type":"host-local"},"isGateway":true,"name":"net","type":"bridge"})");
  cni::SubnetEnv env;
  env.ipv6_subnet = netlink::Cidr::parse("fd00::5/64");
  CHECK(
      config_of(R"(,"ipam":{"ranges":[1],"type":"other"})", env) ==
      R"({"ipam":{"ranges":[[{"subnet":"fd00::/64"}]],"routes":[],"type":"other"},"isGateway":true,)"
      R"("name":"net","type":"bridge"})");
}

TEST_CASE("keys of the delegate are matched exactly, those of flannel are not") {
  const std::string config =
      config_of(R"(,"CNIVERSION":"1.0.0","Delegate":{"Type":"x","IPAM":1})", {});
  CHECK(config.find(R"("IPAM":1)") != std::string::npos);
  CHECK(config.find(R"("cniVersion":"1.0.0")") != std::string::npos);
  CHECK(flannel::type_in(config) == "bridge");
}

TEST_CASE("other verbs get what the runtime says, in the version of now") {
  const cni::Request asked = request(R"(,"cniVersion":"1.1.0","prevResult":{"ips":[]},"dns":{})");
  const json out = json::parse(
      flannel::with_call(R"({"cniVersion":"1.0.0","name":"net","type":"bridge"})", asked));
  CHECK(out == json::parse(R"({"cniVersion":"1.1.0","name":"net","type":"bridge",)"
                           R"("prevResult":{"ips":[]}})"));
}

TEST_CASE("a delegate may have neither name nor ipam, nor be flannel") {
  for (const char* const value : {"\"x\"", "null", "{}"}) {
    for (const char* const key : {"name", "ipam"}) {
      CHECK(complaint(cni::cat(R"(,"delegate":{")", key, "\":", value, "}")) ==
            cni::cat("7 'delegate' dictionary must not have '", key,
                     "' field, it'll be set by flannel"));
    }
  }
  for (const char* const type : {"5", "null", "[]"}) {
    CHECK(complaint(cni::cat(R"(,"delegate":{"type":)", type, "}")) ==
          "7 'delegate' dictionary, if present, must have (string) 'type' field");
  }
  for (const char* const type : {"flannel", "x-flannel"}) {
    CHECK(
        complaint(cni::cat(R"(,"delegate":{"type":")", type, "\"}")) ==
        cni::cat("7 delegate.type: expected the plugin that makes the interface: \"", type, "\""));
  }
}

TEST_CASE("wrong routes are refused in the reference's words") {
  const std::string words =
      "7 failed to assemble Delegate IPAM: failed to read IPAM routes: failed to parse "
      "ipam.routes: ipam.routes";
  CHECK(complaint(R"(,"ipam":{"routes":5})") == words + ": expected a list: 5");
  CHECK(complaint(R"(,"ipam":{"routes":[{}]})").starts_with(words + "[0].dst: "));
  CHECK(complaint(R"(,"ipam":{"routes":[{"dst":"0.0.0.0/0","gw":"x"}]})")
            .starts_with(words + "[0].gw: "));
}

}  // namespace
