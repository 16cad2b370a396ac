// Configs of container runtimes, as cnitool doctor --kubernetes reads them.
#include "cnitool/doctor/kubernetes/toml.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto config = tool::doctor::kubernetes::parse_toml(fuzz::text_of(data, size));
    fuzz::require(config.is_object(), "a document is a table");
  } catch (const std::invalid_argument& e) {
    fuzz::require(std::string_view(e.what()).starts_with("line "), "a mistake has a line");
  }
  return 0;
}
