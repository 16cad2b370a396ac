#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "libcni/common/undo.h"
#include "libcni/plugin/plugin.h"

namespace dummy {

extern const cni::Plugin kPlugin;

namespace {

cni::Request request(cni::Command command, const std::string& keys) {
  cni::Request out;
  out.command = command;
  out.network = "net";
  out.container_id = "ctr";
  out.ifname = "eth0";
  out.netns = "/run/netns/that-does-not-exist";
  out.conf = nlohmann::json::parse("{" + keys + "}");
  return out;
}

template <class Fn>
std::string error_of(Fn&& fn) {
  try {
    fn();
  } catch (const cni::Error& e) {
    return cni::cat(static_cast<unsigned>(e.code()), " ", e.what());
  }
  return "";
}

std::string validated(const std::string& keys) {
  return error_of([&] { kPlugin.verbs.validate(request(cni::Command::kStatus, keys)); });
}

constexpr const char* kNoIpam = "7 dummy interface requires an IPAM configuration";
constexpr const char* kIpam = R"("ipam": {"type": "static"})";

}  // namespace

TEST_CASE("without ipam ADD fails before it opens the namespace, as CHECK and STATUS do") {
  for (const char* const keys : {"", R"("ipam": {})", R"("ipam": {"type": ""})"}) {
    cni::Undo undo;
    CHECK(error_of([&] { kPlugin.verbs.add(request(cni::Command::kAdd, keys), undo); }) == kNoIpam);
    CHECK(error_of([&] { kPlugin.verbs.check(request(cni::Command::kCheck, keys)); }) == kNoIpam);
    CHECK(error_of([&] { kPlugin.verbs.status(request(cni::Command::kStatus, keys)); }) == kNoIpam);
    CHECK(validated(keys) == kNoIpam);
  }
}

TEST_CASE("DEL without ipam succeeds, also with keys that ADD refuses") {
  for (const char* const keys : {"", R"("mtu": "no", "mac": 5)"}) {
    CHECK(error_of([&] { kPlugin.verbs.del(request(cni::Command::kDel, keys)); }).empty());
  }
}

TEST_CASE("mac and mtu are read") {
  CHECK(validated(kIpam).empty());
  CHECK(validated(cni::cat(kIpam, R"(, "mtu": 1400, "mac": "02:00:5e:10:20:30")")).empty());
  CHECK(validated(cni::cat(kIpam, R"(, "mtu": 67)")).starts_with("7 mtu: expected 0"));
  CHECK(validated(cni::cat(kIpam, R"(, "mac": "01:00:5e:10:20:30")")).starts_with("7 mac: "));
  CHECK(validated(cni::cat(kIpam, R"(, "runtimeConfig": {"mac": "no"})"))
            .starts_with("7 invalid args no for MAC addr: "));
}

}  // namespace dummy
