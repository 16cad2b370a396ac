// The config of patchbay-agent.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "plugins/devices/agent/handout.h"
#include "plugins/devices/agent/pools/pools.h"
#include "plugins/devices/agent/stock/stock.h"
#include "plugins/state/ledger_entry.h"
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
      // As the chained plugin reads it.
      const auto is_list = [](const nlohmann::ordered_json& list) {
        return !list.empty() && std::ranges::all_of(list, [](const auto& one) {
          return one.is_object() && one.contains("type") && one["type"].is_string();
        });
      };
      const auto by_id = keys_added(pool, devices::SelectBy::kAuxiliary, "mlx5_core.sf.4");
      require(is_list(plugins_with(pool, by_id)), "plugins of a device");
      for (const devices::Slots& slots : pool.slots) {
        for (const unsigned number : slots.numbers()) {
          require(devices::is_device_id(pool.slot_id(number)), "an id for kubelet and ledger");
          require(ids.insert(pool.slot_id(number)).second, "a slot of one pool");
        }
        require(!slots.numbers().empty(), "a slot");
        const auto added = keys_added(pool, slots.numbers().front());
        require(is_list(plugins_with(pool, added)), "plugins of a slot");
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
