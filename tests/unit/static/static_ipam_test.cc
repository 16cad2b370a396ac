#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "libcni/common/undo.h"
#include "libcni/plugin/plugin.h"
#include "plugins/static/conf.h"

namespace static_ipam {

extern const cni::Plugin kPlugin;

namespace {

cni::Request request(const std::string& ipam, const std::string& rest = "",
                     const std::string& args = "", const std::string& version = "1.1.0") {
  cni::Request out;
  out.conf = nlohmann::json::parse(R"({"name": "net", "cniVersion": ")" + version + "\", " + rest +
                                   (ipam.empty() ? R"("x": 1)" : R"("ipam": )" + ipam) + "}");
  out.version = *cni::version_from(version);
  out.network = "net";
  out.container_id = "ctr";
  out.ifname = "eth0";
  out.args = args;
  return out;
}

std::string ips_of(const cni::Request& request) {
  cni::Undo undo;
  std::string out;
  for (const cni::Address& ip : kPlugin.verbs.add(request, undo).ips) {
    out += ip.cidr.str();
    if (ip.gateway) out += cni::cat(">", ip.gateway->str());
    out += ' ';
  }
  return out;
}

template <class Fn>
std::string error_of(Fn&& fn) {
  try {
    fn();
  } catch (const cni::Error& e) {
    return cni::cat(static_cast<unsigned>(e.code()), " ", e.what());
  }
  return {};
}

const std::string kTwo = R"({"addresses": [{"address": "10.10.0.1/24", "gateway": "10.10.0.254"},
    {"address": "3ffe:ffff:0:01ff::1/64", "gateway": "3ffe:ffff:0::1"}],
    "routes": [{"dst": "0.0.0.0/0"}, {"dst": "192.168.0.0/16", "gw": "10.10.5.1"},
               {"dst": "3ffe:ffff:0:01ff::1/64"}],
    "dns": {"nameservers": ["8.8.8.8"], "domain": "example.com", "search": ["example.com"]}})";

}  // namespace

TEST_CASE("static ADD: two families, routes and DNS as configured, host bits kept") {
  cni::Undo undo;
  const cni::Result result = kPlugin.verbs.add(request(kTwo), undo);
  CHECK(ips_of(request(kTwo)) == "10.10.0.1/24>10.10.0.254 3ffe:ffff:0:1ff::1/64>3ffe:ffff::1 ");
  CHECK(result.routes.size() == 3);
  CHECK(result.dns.nameservers == std::vector<std::string>{"8.8.8.8"});
  CHECK(result.dns.domain == "example.com");
}

TEST_CASE("static ADD: addresses and gateway from CNI_ARGS come after those of the config") {
  CHECK(ips_of(request("{}", "", "IP=10.10.0.1/24;GATEWAY=10.10.0.254")) ==
        "10.10.0.1/24>10.10.0.254 ");
  CHECK(ips_of(request("{}", "", "IP=10.10.0.1/24, 11.11.0.1/24;GATEWAY=10.10.0.254")) ==
        "10.10.0.1/24>10.10.0.254 11.11.0.1/24 ");
  CHECK(ips_of(request(R"({"addresses": [{"address": "10.10.0.9/24"}]})", "",
                       "IP=10.10.0.1/24;GATEWAY=10.10.0.253,10.10.0.254")) ==
        "10.10.0.9/24 10.10.0.1/24>10.10.0.254 ");
}

TEST_CASE("static ADD: args replace the config and CNI_ARGS, runtimeConfig replaces all") {
  const std::string args = R"("args": {"cni": {"ips": ["10.10.0.2/24", "2001:db8::2/64"]}}, )";
  const std::string runtime = R"("RuntimeConfig": {"ips": ["10.10.0.3/24"]}, )";
  const std::string two = "IP=10.10.0.1/24,11.11.0.1/24;GATEWAY=10.10.0.254";
  CHECK(ips_of(request(kTwo, args, two)) == "10.10.0.2/24 2001:db8::2/64 ");
  CHECK(ips_of(request(kTwo, args + runtime, two)) == "10.10.0.3/24 ");
  // The list that loses may be longer than an old version can say.
  CHECK(ips_of(request("{}", args + runtime, two, "0.2.0")) == "10.10.0.3/24 ");
  CHECK(ips_of(request("{}", R"("runtimeConfig": {"ips": []}, )", "IP=1.2.3.4/8")) == "1.2.3.4/8 ");
}

TEST_CASE("static ADD: more than one address of a family needs 0.3.0") {
  const auto old = request("{}", "", "IP=10.10.0.1/24,11.11.0.1/24", "0.2.0");
  CHECK(error_of([&] { ips_of(old); }) ==
        "7 CNI version 0.2.0 does not support more than 1 address per family");
}

TEST_CASE("static: no ipam is an error, also where addresses come from elsewhere") {
  const std::string text = "7 IPAM config missing 'ipam' key";
  CHECK(error_of([] { ips_of(request("", "", "IP=10.10.0.1/24")); }) == text);
  CHECK(error_of([] { ips_of(request("", R"("runtimeConfig": {"ips": ["10.1.1.1/8"]}, )")); }) ==
        text);
  CHECK(error_of([] { kPlugin.verbs.status(request("")); }) == text);
}

TEST_CASE("static: what is not in CIDR notation is named with its place") {
  const auto by = [](const std::string& ipam, const std::string& rest, const std::string& args) {
    return error_of([&] { kPlugin.verbs.status(request(ipam, rest, args)); });
  };
  CHECK(by(R"({"addresses": [{"address": "10.10.0.1"}]})", "", "") ==
        "7 the 'address' field is expected to be in CIDR notation, got: '10.10.0.1'");
  CHECK(by("{}", "", "IP=10.10.0.1") ==
        "4 the 'ip' field is expected to be in CIDR notation, got: '10.10.0.1'");
  CHECK(by("{}", "", "IP=10.10.0.1/24;GATEWAY=x") == "4 invalid gateway address: x");
  CHECK(by("{}", R"("args": {"cni": {"ips": ["10.10.0.1"]}}, )", "") ==
        "7 an entry in the 'ips' field is NOT in CIDR notation, got: '10.10.0.1'");
  CHECK(by("{}", R"("runtimeConfig": {"ips": ["10.10.0.1"]}, )", "") ==
        "7 an entry in the 'ips' field is NOT in CIDR notation, got: '10.10.0.1'");
}

TEST_CASE("static: null in the lists is an error, not a crash") {
  for (const char* ipam : {R"({"addresses": [null]})", R"({"addresses": [{}]})",
                           R"({"addresses": [{"address": null}]})", R"({"routes": [null]})",
                           R"({"addresses": {}})", R"({"addresses": [7]})"}) {
    CHECK(error_of([&] { kPlugin.verbs.status(request(ipam)); }).starts_with("7 "));
  }
  CHECK(error_of([] {
          kPlugin.verbs.status(request("{}", R"("runtimeConfig": {"ips": [null]}, )"));
        }).starts_with("7 an entry in the 'ips' field is NOT in CIDR"));
}

TEST_CASE("static CHECK: what ADD gave is accepted, what is missing or differs is not") {
  const auto with = [](const std::string& ips, const std::string& rest = "") {
    return error_of([&] {
      kPlugin.verbs.check(
          request(kTwo, rest + R"("prevResult": {"cniVersion": "1.1.0", "ips": [)" + ips + "]}, "));
    });
  };
  const std::string v4 = R"({"address": "10.10.0.1/24", "gateway": "10.10.0.254"})";
  const std::string v6 = R"({"address": "3ffe:ffff:0:1ff::1/64", "gateway": "3ffe:ffff::1"})";
  CHECK(with(v4 + "," + v6) == "");
  CHECK(with(v6 + R"(,{"address": "1.2.3.4/8"},)" + v4) == "");
  CHECK(with(v6) == "999 static: Failed to match addr 10.10.0.1 on interface eth0");
  CHECK(with(v4).ends_with("3ffe:ffff:0:1ff::1 on interface eth0"));
  CHECK(with(R"({"address": "10.10.0.1/16", "gateway": "10.10.0.254"},)" + v6) != "");
  CHECK(with(R"({"address": "10.10.0.1/24", "gateway": "10.10.0.253"},)" + v6) != "");
  CHECK(with(R"({"address": "10.10.0.3/24"})", R"("runtimeConfig": {"ips": ["10.10.0.3/24"]}, )") ==
        "");
  CHECK(error_of([] { kPlugin.verbs.check(request(kTwo)); }) == "7 Required prevResult missing");
}

}  // namespace static_ipam
