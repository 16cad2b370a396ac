// The config of static, and with it ADD and CHECK, which look at nothing else.
#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/plugin_conf.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto request = fuzz::request_in(fuzz::text_of(data, size));
  if (!request) return 0;
  fuzz::accepts([&] { static_ipam::kPlugin.verbs.check(*request); });
  if (!fuzz::takes(*request, static_ipam::kPlugin.verbs.validate)) return 0;
  cni::Undo undo;
  const cni::Result result = static_ipam::kPlugin.verbs.add(*request, undo);
  undo.commit();
  fuzz::accepts([&] {
    const nlohmann::json printed = cni::to_json(result, request->version);
    cni::result_from(printed, request->version);
  });
  return 0;
}
