#include "plugins/macvlan/conf.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/unit/defaults.h"

using macvlan::Conf;
using netlink::Mac;
using Mode = netlink::Macvlan::Mode;

namespace {

constexpr const char* kOne = "02:00:5e:10:20:01";
constexpr const char* kTwo = "02:00:5e:10:20:02";
constexpr const char* kThree = "02:00:5e:10:20:03";

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

std::string mac_of(const std::string& keys, const std::string& args = "") {
  const auto mac = parse(keys, args).mac;
  return mac ? mac->str() : "";
}

}  // namespace

TEST_CASE("an empty config is mode bridge on the link of the default route") {
  const Conf conf = parse("");
  CHECK(conf == Conf{});
  CHECK(conf.data.mode == Mode::kBridge);
  CHECK(parse(R"("mode": "", "master": "", "mac": "")") == conf);
}

TEST_CASE("what the table calls the default is what holds without the key") {
  cni::Request with = request("");
  with.conf = with_defaults(with.conf, macvlan::kManual);
  CHECK(with.conf->size() > 4);
  CHECK(Conf::parse(with).data == Conf{}.data);
}

TEST_CASE("a mode is one of five") {
  CHECK(parse(R"("mode": "private")").data.mode == Mode::kPrivate);
  CHECK(parse(R"("mode": "vepa")").data.mode == Mode::kVepa);
  CHECK(parse(R"("mode": "passthru")").data.mode == Mode::kPassthru);
  CHECK(complaint(R"("mode": "Bridge")") == "7 unknown macvlan mode: \"Bridge\"");
}

TEST_CASE("a mode has one name, a number of the kernel's that is none too") {
  for (const std::string_view name : {"bridge", "private", "vepa", "passthru"}) {
    CHECK(macvlan::name_of(parse(cni::cat(R"("mode": ")", name, "\"")).data.mode) == name);
  }
  CHECK(macvlan::name_of(Mode::kSource) == "source");
  CHECK(macvlan::name_of(Mode{3}) == "unknown");
}

TEST_CASE("allowedMACs is for mode source, which needs it") {
  const std::string list =
      cni::cat(R"("allowedMACs": [")", kTwo, R"(", ")", kOne, R"(", ")", kTwo, "\"]");
  const Conf conf = parse(R"("mode": "source", )" + list);
  CHECK(conf.data.allowed == std::vector<Mac>{*Mac::parse(kOne), *Mac::parse(kTwo)});
  CHECK(complaint(list).starts_with("7 allowedMACs: only of mode \"source\": "));
  CHECK(complaint(R"("mode": "source")").starts_with("7 allowedMACs: "));
  CHECK(complaint(R"("mode": "source", "allowedMACs": [])").starts_with("7 allowedMACs: "));
  CHECK(complaint(R"("mode": "source", "allowedMACs": [""])").starts_with("7 allowedMACs[0]: "));
  CHECK(complaint(R"("mode": "source", "allowedMACs": ["01:00:5e:00:00:01"])")
            .starts_with("7 allowedMACs[0]: "));
}

TEST_CASE("runtimeConfig overrides CNI_ARGS, which overrides mac") {
  const std::string key = cni::cat(R"("mac": ")", kOne, "\"");
  const std::string runtime = cni::cat(R"("RuntimeConfig": {"mac": ")", kThree, "\"}");
  const std::string args = cni::cat("IgnoreUnknown=true;MAC=", kTwo);
  CHECK(mac_of("").empty());
  CHECK(mac_of(key) == kOne);
  CHECK(mac_of(key, args) == kTwo);
  CHECK(mac_of(key + ", " + runtime, args) == kThree);
  CHECK(complaint("", "MAC=zz").starts_with("4 invalid args zz for MAC addr: "));
  CHECK(complaint(R"("mac": "zz")", args).starts_with("7 invalid args zz for MAC addr: "));
}

TEST_CASE("numbers have the range of the kernel's fields") {
  CHECK(parse(R"("bcqueuelen": 4294967295)").data.broadcast_queue == 4294967295U);
  CHECK(complaint(R"("bcqueuelen": 4294967296)").starts_with("7 bcqueuelen: "));
  CHECK(complaint(R"("bcqueuelen": -1)").starts_with("7 bcqueuelen: "));
  CHECK(parse(R"("mtu": 68)").mtu == 68);
  CHECK(complaint(R"("mtu": 67)").starts_with("7 mtu: "));
}
