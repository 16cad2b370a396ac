// The config of loopback.
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/plugin_conf.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto request = fuzz::request_in(fuzz::text_of(data, size));
  if (!request) return 0;
  fuzz::takes(*request, loopback::kPlugin.verbs.validate);
  fuzz::accepts([&] { cni::collect(loopback::kPlugin, *request); });
  return 0;
}
