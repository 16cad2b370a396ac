#include "plugins/ipvlan/conf.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/unit/defaults.h"

using cni::Result;
using ipvlan::Conf;
using Mode = netlink::Ipvlan::Mode;
using Isolation = netlink::Ipvlan::Isolation;

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

cni::Cidr cidr(const char* text) { return *cni::Cidr::parse(text); }
cni::Ip ip(const char* text) { return *cni::Ip::parse(text); }

Result with_interfaces(std::initializer_list<const char*> names) {
  Result out;
  for (const char* name : names) out.interfaces.push_back({.name = name});
  return out;
}

// An address with a gateway, and a route by way of another one.
Result routed(const char* address, const char* gateway, const char* next_hop) {
  return {.ips = {{.cidr = cidr(address), .gateway = ip(gateway)}},
          .routes = {{.dst = cidr("10.9.0.0/16"), .gateway = ip(next_hop)}}};
}

}  // namespace

TEST_CASE("an empty config is mode l2 with flags bridge") {
  CHECK(parse("") == Conf{});
  CHECK(parse(R"("mode": "", "flags": "", "master": "")") == Conf{});
  CHECK(Conf{}.data.mode == Mode::kL2);
}

TEST_CASE("what the table calls the default is what holds without the key") {
  cni::Request with = request("");
  with.conf = with_defaults(with.conf, ipvlan::kManual);
  CHECK(with.conf->size() > 3);
  CHECK(Conf::parse(with).data == Conf{}.data);
}

TEST_CASE("modes and flags are the kernel's words") {
  CHECK(parse(R"("mode": "l3")").data.mode == Mode::kL3);
  CHECK(parse(R"("mode": "l3s")").data.mode == Mode::kL3s);
  CHECK(parse(R"("flags": "private")").data.isolation == Isolation::kPrivate);
  CHECK(parse(R"("flags": "vepa")").data.isolation == Isolation::kVepa);
  CHECK(complaint(R"("mode": "l4")") == R"(7 unknown ipvlan mode: "l4")");
  CHECK(complaint(R"("mode": "L2")") == R"(7 unknown ipvlan mode: "L2")");
  CHECK(complaint(R"("flags": "none")").starts_with(R"(7 unknown ipvlan flags: "none")"));
  CHECK(ipvlan::name_of(Mode::kL3s) == "l3s");
  CHECK(ipvlan::name_of(Mode{3}) == "unknown");
}

TEST_CASE("the master is the config's, else the only interface of prevResult") {
  const auto two = with_interfaces({"eth1", "eth2"});
  CHECK(master_of(parse(R"("master": "eth0")"), two) == "eth0");
  CHECK(master_of(parse(""), with_interfaces({"eth1"})) == "eth1");
  CHECK(master_of(parse(""), std::nullopt).empty());
  for (const Result& wrong : {two, with_interfaces({}), with_interfaces({""})}) {
    CHECK_THROWS_WITH(master_of(parse(""), wrong),
                      "chained master failure. PrevResult lacks a single named interface");
  }
}

TEST_CASE("in mode l2 every gateway stays, as the kernel judges it") {
  const Result given = routed("10.1.2.9/32", "10.8.8.8", "10.8.8.9");
  CHECK(ipvlan::routable(given, Mode::kL2) == given);
}

TEST_CASE("in modes l3 and l3s a gateway beyond the link is left out") {
  for (const Mode mode : {Mode::kL3, Mode::kL3s}) {
    const Result on_link = routed("10.1.2.9/24", "10.1.2.1", "10.1.2.77");
    CHECK(ipvlan::routable(on_link, mode) == on_link);
    const Result result = ipvlan::routable(routed("10.1.2.9/24", "10.8.8.8", "10.1.3.1"), mode);
    CHECK_FALSE(result.ips[0].gateway);
    CHECK_FALSE(result.routes[0].gateway);
    CHECK(result.routes[0].scope == 253U);
  }
}
