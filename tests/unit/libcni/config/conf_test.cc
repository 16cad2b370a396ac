#include "libcni/config/conf.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using cni::Code;
using cni::Error;
using cni::Reader;
using nlohmann::json;

namespace {

// What a reading complains of; "" where it does not.
template <class Fn>
std::string complaint_of(Fn&& fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a complaint names the place, what was expected, and the value") {
  const json doc = R"({"ipam": {"ranges": [[{"subnet": "10.0.0.0/8"}, {"subnet": "10.1"}]]},
                       "mtu": "big", "up": 1, "name": 7, "dns": []})"_json;
  const Reader root(doc);
  const Reader range = root["ipam"]["ranges"].elements().at(0).elements().at(1);
  CHECK(range.path() == "ipam.ranges[0][1]");
  CHECK(complaint_of([&] { range["subnet"].as_cidr(); }) ==
        "ipam.ranges[0][1].subnet: expected an address with prefix length (CIDR notation, "
        "for example 10.1.2.0/24): \"10.1\"");
  CHECK(complaint_of([&] { range["subnet"].as_ip(); }) ==
        "ipam.ranges[0][1].subnet: not an IP address: \"10.1\"");
  CHECK(complaint_of([&] { root["mtu"].as_int(0, 65535); }) ==
        "mtu: expected an integer from 0 to 65535: \"big\"");
  CHECK(complaint_of([&] { root["up"].as_bool(); }) == "up: expected true or false: 1");
  CHECK(complaint_of([&] { root["name"].as_string(); }) == "name: expected a string: 7");
  CHECK(complaint_of([&] { root["ipam"].elements(); }).starts_with("ipam: expected a list: {"));
  CHECK(complaint_of([&] { root["dns"]["domain"]; }) == "dns: expected an object: []");
  CHECK(complaint_of([&] {
          root["dns"].elements();
          root["nope"].as_string();
        }) == "nope: expected a string: the key is missing");
}

TEST_CASE("a complaint names a place however deep it is") {
  const json doc = R"({"a": {"b": [[{"c": {"d": [{"e": 1}]}}]]}})"_json;
  const Reader b = Reader(doc)["a"]["b"];
  const Reader e = b.elements()[0].elements()[0]["c"]["d"].elements()[0]["e"];
  CHECK(e.path() == "a.b[0][0].c.d[0].e");
  CHECK(b.path() == "a.b");
  CHECK(complaint_of([&] { e.as_string(); }) == "a.b[0][0].c.d[0].e: expected a string: 1");
  CHECK(Reader(doc, Code::kInvalidConfig, "plugins[1]")["a"]["x"].path() == "plugins[1].a.x");
}

TEST_CASE("a complaint about the whole document says config") {
  const json doc = json::array();
  const Reader root(doc);
  CHECK(complaint_of([&] { root["name"]; }) == "config: expected an object: []");
}

TEST_CASE("a complaint carries the code it was asked to") {
  const json doc = R"({"name": 7})"_json;
  for (const Code code : {Code::kInvalidConfig, Code::kDecodingFailure}) {
    try {
      Reader(doc, code)["name"].as_string();
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.code() == code);
    }
  }
}

TEST_CASE("a long value is cut in a complaint") {
  const json doc = {{"name", json::array({std::string(5000, 'x')})}};
  const std::string text = complaint_of([&] { Reader(doc)["name"].as_string(); });
  CHECK(text.size() < 200);
  CHECK(text.ends_with("..."));
}

TEST_CASE("keys match without regard to case, an exact match first") {
  const json doc = R"({"RUNTIMECONFIG": {"Mac": "a"}, "IPAM": 1, "ipam": 2, "Ipam": 3})"_json;
  const Reader root(doc);
  CHECK(root["runtimeConfig"]["mac"].as_string() == "a");
  CHECK(root["ipam"].as_int(0, 9) == 2);
  CHECK_FALSE(root["ipa"].present());
  CHECK_FALSE(root["ipamx"].present());
}

TEST_CASE("a string with a NUL byte is refused, as the kernel would cut a name there") {
  const json doc = {{"master", std::string("up0\0evil", 8)}, {"list", {std::string(1, '\0')}}};
  const Reader root(doc);
  std::string text = "kept";
  CHECK(complaint_of([&] { root.into("master", text); }) ==
        R"(master: expected a string without NUL bytes: "up0\u0000evil")");
  CHECK(text == "kept");
  CHECK(complaint_of([&] { root["list"].as_strings(); }) ==
        R"(list[0]: expected a string without NUL bytes: "\u0000")");
}

TEST_CASE("null is absent") {
  const json doc = R"({"mtu": null, "ipam": null, "list": [null, 1]})"_json;
  const Reader root(doc);
  CHECK_FALSE(root["mtu"].present());
  CHECK_FALSE(root["ipam"]["type"].present());
  CHECK(root["ipam"].elements().empty());
  int mtu = 5;
  root.into("mtu", mtu, 0, 9000);
  CHECK(mtu == 5);
  CHECK(root["list"].elements().size() == 2);
  CHECK_FALSE(root["list"].elements()[0].present());
  CHECK(root["list"].elements()[1].as_int(0, 1) == 1);
}

TEST_CASE("an absent key leaves the field as it is") {
  const json doc = json::object();
  const Reader root(doc);
  bool flag = true;
  std::string text = "kept";
  std::vector<std::string> list{"kept"};
  int number = 7;
  std::optional<cni::Ip> ip = cni::Ip::parse("10.0.0.1");
  std::optional<cni::Cidr> cidr = cni::Cidr::parse("10.0.0.1/8");
  root.into("a", flag);
  root.into("b", text);
  root.into("c", list);
  root.into("d", number, 0, 9);
  root.into("e", ip);
  root.into("f", cidr);
  CHECK(flag);
  CHECK(text == "kept");
  CHECK(list == std::vector<std::string>{"kept"});
  CHECK(number == 7);
  CHECK(ip);
  CHECK(cidr);
}

TEST_CASE("a key that is there fills the field, also with what is empty") {
  const json doc = R"({"flag": false, "text": "", "list": [], "number": 0,
                       "ip": "::1", "cidr": "10.1.2.3/24"})"_json;
  const Reader root(doc);
  bool flag = true;
  std::string text = "old";
  std::vector<std::string> list{"old"};
  unsigned number = 7;
  std::optional<cni::Ip> ip;
  std::optional<cni::Cidr> cidr;
  root.into("flag", flag);
  root.into("text", text);
  root.into("list", list);
  root.into("number", number, 0, 9);
  root.into("ip", ip);
  root.into("cidr", cidr);
  CHECK_FALSE(flag);
  CHECK(text.empty());
  CHECK(list.empty());
  CHECK(number == 0);
  CHECK(ip->str() == "::1");
  CHECK(cidr->str() == "10.1.2.3/24");
}

TEST_CASE("an empty address is an absent one, but a wrong one is refused") {
  const json doc = R"({"gateway": "", "bad": "10.1", "type": 5})"_json;
  const Reader root(doc);
  std::optional<cni::Ip> ip;
  std::optional<cni::Cidr> cidr;
  root.into("gateway", ip);
  root.into("gateway", cidr);
  CHECK_FALSE(ip);
  CHECK_FALSE(cidr);
  CHECK_THROWS_AS(root.into("bad", ip), Error);
  CHECK_THROWS_AS(root.into("bad", cidr), Error);
  CHECK_THROWS_AS(root.into("type", ip), Error);
}

TEST_CASE("integers are taken within their range only") {
  const json doc = R"({"least": 0, "most": 4094, "over": 4095, "under": -1,
                       "huge": 18446744073709551615, "larger": 9223372036854775808,
                       "beyond": 99999999999999999999999})"_json;
  const Reader root(doc);
  CHECK(root["least"].as_int(0, 4094) == 0);
  CHECK(root["most"].as_int(0, 4094) == 4094);
  CHECK(root["under"].as_int(-1, 0) == -1);
  for (const char* key : {"over", "under", "huge", "larger", "beyond"}) {
    CAPTURE(key);
    CHECK_THROWS_AS(root[key].as_int(0, 4094), Error);
  }
  CHECK_THROWS_AS(root["larger"].as_int(INT64_MIN, INT64_MAX), Error);
  CHECK(complaint_of([&] { root["over"].as_int(0, 4094); }) ==
        "over: expected an integer from 0 to 4094: 4095");
}

TEST_CASE("fractions, exponents and quoted numbers are no integers") {
  for (const char* text : {"1.5", "1.0", "1e3", "1E0", "\"1\"", "true", "[1]", "{}"}) {
    CAPTURE(text);
    const json doc = {{"mtu", json::parse(text)}};
    int mtu = 0;
    CHECK_THROWS_AS(Reader(doc).into("mtu", mtu, 0, 9000), Error);
  }
}

TEST_CASE("a value of another type is refused, not converted") {
  const json doc = R"({"bool": true, "int": 1, "text": "x", "list": [1], "object": {}})"_json;
  const Reader root(doc);
  for (const char* key : {"int", "text", "list", "object"})
    CHECK_THROWS_AS(root[key].as_bool(), Error);
  for (const char* key : {"bool", "int", "list", "object"}) {
    CHECK_THROWS_AS(root[key].as_string(), Error);
    CHECK_THROWS_AS(root[key].as_ip(), Error);
    CHECK_THROWS_AS(root[key].as_cidr(), Error);
  }
  for (const char* key : {"bool", "int", "text", "object"}) {
    CHECK_THROWS_AS(root[key].elements(), Error);
    CHECK_THROWS_AS(root[key].as_strings(), Error);
  }
  CHECK(complaint_of([&] { root["list"].as_strings(); }) == "list[0]: expected a string: 1");
}

TEST_CASE("DNS settings are read; an absent place gives none") {
  const json doc = R"({"dns": {"nameservers": ["10.0.0.1"], "domain": "d", "search": ["a", "b"],
                               "options": ["ndots:5"]}})"_json;
  CHECK(cni::dns_from(Reader(doc)["dns"]) == cni::Dns{.nameservers = {"10.0.0.1"},
                                                      .domain = "d",
                                                      .search = {"a", "b"},
                                                      .options = {"ndots:5"}});
  CHECK(cni::dns_from(Reader(doc)["nope"]).empty());
}

TEST_CASE("routes are read with everything the newest spec knows") {
  const json doc = R"({"routes": [{"dst": "10.0.0.0/8"},
      {"dst": "::/0", "gw": "fe80::1", "mtu": 1400, "advmss": 1360, "priority": 100,
       "table": 254, "scope": 0}]})"_json;
  const auto routes = cni::routes_from(Reader(doc)["routes"]);
  REQUIRE(routes.size() == 2);
  CHECK(routes[0] == cni::Route{.dst = *cni::Cidr::parse("10.0.0.0/8")});
  CHECK(routes[1] == cni::Route{.dst = *cni::Cidr::parse("::/0"),
                                .gateway = cni::Ip::parse("fe80::1"),
                                .mtu = 1400,
                                .advmss = 1360,
                                .priority = 100,
                                .table = 254,
                                .scope = 0});
}

TEST_CASE("a route that cannot be is refused with its place") {
  const struct {
    const char *route, *msg;
  } table[] = {
      {R"({"gw": "10.0.0.1"})", "routes[0].dst: expected a string: the key is missing"},
      {R"({"dst": "10.0.0.1"})", "routes[0].dst: expected an address with prefix length"},
      {R"({"dst": "0.0.0.0/0", "gw": "fe80::1"})",
       "routes[0].gw: not of the address family of dst 0.0.0.0/0: \"fe80::1\""},
      {R"({"dst": "0.0.0.0/0", "gw": "x"})", "routes[0].gw: not an IP address: \"x\""},
      {R"({"dst": "0.0.0.0/0", "mtu": -1})", "routes[0].mtu: expected an integer from 0 to"},
      {R"({"dst": "0.0.0.0/0", "scope": 256})",
       "routes[0].scope: expected an integer from 0 to 255"},
  };
  for (const auto& row : table) {
    CAPTURE(row.route);
    const json doc = {{"routes", json::array({json::parse(row.route)})}};
    CHECK(complaint_of([&] { cni::routes_from(Reader(doc)["routes"]); }).starts_with(row.msg));
  }
}

TEST_CASE("a key that is there as null is not present, but there") {
  const json doc = R"({"Rate": null, "list": []})"_json;
  const Reader root(doc);
  CHECK(root.has("rate"));
  CHECK_FALSE(root["rate"].present());
  CHECK_FALSE(root.has("burst"));
  CHECK_FALSE(root["absent"].has("rate"));
  CHECK(complaint_of([&] { (void)root["list"].has("rate"); }) == "list: expected an object: []");
}
