// The config of host-local.
#include "plugins/host-local/conf.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/plugin_conf.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using fuzz::require;
  const auto request = fuzz::request_in(fuzz::text_of(data, size));
  if (!request) return 0;
  fuzz::accepts([&] { leases::data_dir_from(*request); });
  fuzz::takes(*request, host_local::kPlugin.verbs.validate);
  fuzz::accepts([&] {
    const auto conf = host_local::parse(*request);
    require(!conf.data_dir.empty() && !conf.sets.empty(), "there is something to give out");
    for (const auto& set : conf.sets) {
      cni::check_ranges(set);
      require(!set.str().empty(), "a set can be named");
      leases::Cursor(set, std::nullopt).next();
    }
  });
  return 0;
}
