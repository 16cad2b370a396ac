// The config of patchbay-agent.
#include <nlohmann/json.hpp>
#include <set>

#include "plugins/devices/agent/handout.h"
#include "plugins/devices/agent/pools/attach.h"
#include "plugins/devices/agent/pools/pools.h"
#include "plugins/devices/agent/stock/stock.h"
#include "plugins/devices/ledger/entry.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using fuzz::require;
  const std::string text(fuzz::text_of(data, size));
  const auto verdict = devices::judge_pools(text);
  bool is_accepted = false;
  fuzz::accepts([&] {
    const auto pools = devices::Pools::parse(text);
    is_accepted = true;
    std::set<std::string> ids;
    for (const devices::Pool& pool : pools.pools) {
      require(devices::is_resource_name(pool.resource), "a resource of Kubernetes");
      devices::plugins_for(pool, devices::SelectBy::kName, "eth1");
      for (const devices::Slots& slots : pool.slots) {
        for (const unsigned number : slots.numbers()) {
          require(devices::is_device_id(slots.id(number)), "an id for kubelet and ledger");
          require(ids.insert(slots.id(number)).second, "a slot of one pool");
        }
        require(!slots.numbers().empty(), "a slot");
        devices::plugins_for_slot(pool, slots.numbers().front());
      }
      require(devices::variable_of(pool.resource).find_first_of("=./-") == std::string::npos,
              "a variable's name");
    }
    const devices::Device device{.id = "netdev:eth1", .link = devices::DeviceLink{.name = "eth1"}};
    devices::stock_of(pools, {device}, {});
  });
  require(is_accepted == verdict.refusal.empty(), "the verdict is that of the parser");
  require(!is_accepted || verdict.complaints.empty(), "what has complaints is refused");
  return 0;
}
