// What plugins print, as a runtime reads it: results, errors, versions, and the answers to REPAIR
// and RECLAIM. The first line is the version of the network list.
#include "libcni/runtime/plugin_answer.h"

#include <nlohmann/json.hpp>

#include "libcni/plugin/invoke.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using fuzz::require;
  std::string_view text = fuzz::text_of(data, size);
  std::string version;
  if (!text.starts_with('{')) version = fuzz::take_until(text, "\n");
  const std::string printed(text);
  fuzz::accepts([&] {
    const auto result = cni::result_in(printed, version);
    require(result.is_object() && result["cniVersion"].is_string(), "a result has a version");
    require(cni::result_in(result.dump(), version) == result, "a result is read again");
  });
  fuzz::accepts([&] { cni::repair_in(printed, version); });
  fuzz::accepts([&] { cni::found_in(printed); });
  fuzz::accepts(
      [&] { require(!cni::versions_in(printed).versions.empty(), "there is a version"); });
  const cni::Error error =
      cni::error_from("bridge", {.wait_status = 256, .out = printed, .err = {}});
  require(*error.what() != '\0', "an error says what is wrong");
  return 0;
}
