// ResourceClaims of an API server, and the parameters in them.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "libcni/config/json.h"
#include "libcni/config/nearest.h"
#include "plugins/devices/agent/dra/claim.h"
#include "plugins/devices/agent/dra/names.h"
#include "plugins/devices/agent/dra/parameters.h"
#include "plugins/devices/agent/pools/pools.h"
#include "tests/fuzz/fuzz.h"

namespace {

using fuzz::require;

const devices::Pool& pool() {
  static const devices::Pools all =
      devices::Pools::parse(R"({"dra": {"node": "n1"}, "pools": [{"resource": "vendor.example/slot",
          "slots": {"parent": "eth1", "count": 2, "bandwidth": "1G"},
          "plugins": [{"type": "macvlan", "ipam": {"type": "host-local"}}, {"type": "tuning"}]}]})");
  return all.pools.front();
}

void check(const devices::dra::Result& result, const devices::dra::Allocation& claim) {
  require(!result.device.empty() && !result.request.empty(), "a device for a request");
  const std::string name = devices::dra::device_name(result.device);
  require(name.size() <= 63 && name.front() != '-' && name.back() != '-', "a DNS label");
  const devices::Pool got = merged(pool(), claim.configs, result.request);
  require((*got.plugins)[0]["type"] == "macvlan", "the plugin that makes the link");
  const auto list = plugins_with(got, keys_added(got, 1));
  require(list[0]["master"] == "eth1", "the parent is the pool's");
  require(std::ranges::all_of(list, [](const auto& one) { return one["type"].is_string(); }),
          "plugins that devices can call");
  const auto limited = devices::dra::with_bandwidth(list, 1000);
  const auto limit =
      std::ranges::find_if(limited, [](const auto& one) { return one["type"] == "bandwidth"; });
  require((*limit)["egressRate"] <= 1000, "no more than what is consumed");
  if (std::ranges::any_of(claim.configs, &devices::dra::Config::is_from_class)) return;
  for (const auto& [key, value] : limit->items()) {
    require(!cni::same_but_for_case(key, "unshapedSubnets") &&
                !cni::same_but_for_case(key, "shapedSubnets") &&
                !cni::same_but_for_case(key, "runtimeConfig"),
            "no traffic past the limit");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accepts([&] {
    const auto object = cni::parse_json(fuzz::text_of(data, size), "the claim");
    const auto claim = devices::dra::allocation_in(object, {.uid = "c1",
                                                            .space = "shop",
                                                            .name = "web-0-nic",
                                                            .driver = "devices.patchbay",
                                                            .pool = "n1"});
    require(!claim.pod.uid.empty() && !claim.results.empty(), "a pod and a device");
    for (const auto& one : claim.results) check(one, claim);
  });
  return 0;
}
