// Results of all versions: read, converted to each version, and read again. The first line is the
// version of the config where it is one, else the result says its own.
#include "libcni/config/result.h"

#include <nlohmann/json.hpp>

#include "libcni/config/json.h"
#include "libcni/runtime/operation.h"
#include "tests/fuzz/fuzz.h"

namespace {

using cni::Result;
using cni::Version;
using fuzz::require;

// What versions before 1.0.0 have no words for.
Result without_news(Result result) {
  for (cni::Interface& one : result.interfaces) {
    one.mtu = 0;
    one.socket_path.clear();
    one.pci_id.clear();
  }
  return result;
}

void print_and_read(const Result& result, Version as) {
  nlohmann::json printed;
  if (!fuzz::accepts([&] { printed = cni::to_json(result, as); })) return;
  const Result again = cni::result_from(printed);
  require(nlohmann::json(cni::to_json(again, as)) == printed, "a printed result is printed again");
  if (as >= Version::k1_0_0) require(again == result, "a printed result is the same result");
  if (as >= Version::k0_3_0 && as < Version::k1_0_0) {
    require(again == without_news(result), "an older version has all that it has words for");
  }
  for (const std::string_view to : cni::supported_versions()) {
    fuzz::accepts([&] { cni::in_version(printed, std::string(to)); });
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text = fuzz::text_of(data, size);
  std::optional<Version> assumed;
  if (!text.starts_with('{')) assumed = cni::version_from(fuzz::take_until(text, "\n"));
  Result result;
  const auto read = [&] {
    const nlohmann::json doc = cni::parse_json(text, "it");
    result = assumed ? cni::result_from(doc, *assumed) : cni::result_from(doc);
  };
  if (!fuzz::accepts(read)) return 0;
  for (std::size_t i = 0; i < std::size(cni::kVersions); ++i) {
    print_and_read(result, static_cast<Version>(i));
  }
  return 0;
}
