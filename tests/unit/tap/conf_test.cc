#include "plugins/tap/conf.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/unit/defaults.h"

using netlink::Mac;
using tap::Conf;

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

}  // namespace

TEST_CASE("an empty config has the reference's defaults") {
  CHECK(parse("") == Conf{});
  CHECK_FALSE(parse("").owner);
  CHECK_FALSE(parse("").group);
}

TEST_CASE("what the table calls the default is what holds without the key") {
  cni::Request with = request("");
  with.conf = with_defaults(with.conf, tap::kManual);
  CHECK(with.conf->contains("mtu"));
  CHECK(Conf::parse(with) == parse(""));
}

TEST_CASE("uid and gid 0 are set, null is absent") {
  CHECK(parse(R"("owner": 0, "group": 0)").owner == 0U);
  CHECK(parse(R"("owner": 0, "group": 0)").group == 0U);
  CHECK(parse(R"("owner": 4294967294)").owner == 4294967294U);
  CHECK_FALSE(parse(R"("owner": null)").owner);
  CHECK(complaint(R"("owner": 4294967295)").starts_with("7 owner: "));
  CHECK(complaint(R"("group": -1)").starts_with("7 group: "));
}

TEST_CASE("of several MAC addresses the runtime's counts") {
  const char* const first = "02:00:00:00:00:01";
  const std::string args = "MAC=02:00:00:00:00:02";
  const std::string mac = R"("mac": "02:00:00:00:00:01")";
  const std::string of_args = R"(, "args": {"cni": {"mac": "02:00:00:00:00:03"}})";
  const std::string of_runtime = R"(, "runtimeConfig": {"mac": "02:00:00:00:00:04"})";
  CHECK(parse(mac).mac == Mac::parse(first));
  CHECK(parse(mac, args).mac == Mac::parse("02:00:00:00:00:02"));
  CHECK(parse(mac + of_args, args).mac == Mac::parse("02:00:00:00:00:03"));
  CHECK(parse(mac + of_args + of_runtime, args).mac == Mac::parse("02:00:00:00:00:04"));
  CHECK(complaint(mac, "MAC=zz").starts_with("4 "));
}

TEST_CASE("the largest MTU is that of a tap") {
  CHECK(parse(R"("mtu": 65521)").mtu == 65521);
  CHECK(complaint(R"("mtu": 65522)") == "7 mtu: expected an integer from 0 to 65521: 65522");
}

TEST_CASE("an SELinux context has a user, a role and a type") {
  for (const char* const good : {"system_u:system_r:container_t:s0:c1,c2", "a:b:c", ""}) {
    CAPTURE(good);
    CHECK(parse(cni::cat(R"("selinuxContext": ")", good, "\"")).selinux_context == good);
  }
  for (const char* const bad :
       {"container_t", "a:b", ":::", ":a:b", "a::b", "a:b:", "a:b:c d", "a:b:c\\n", "a:b:\\n"}) {
    CAPTURE(bad);
    CHECK(
        complaint(cni::cat(R"("selinuxContext": ")", bad, "\"")).starts_with("7 selinuxContext: "));
  }
}

TEST_CASE("a bridge is a link name, or none") {
  CHECK(parse(R"("bridge": "br1")").bridge == "br1");
  CHECK(parse(R"("bridge": "")").bridge.empty());
  CHECK(complaint(R"("bridge": "a/b")").starts_with("7 bridge: "));
}
