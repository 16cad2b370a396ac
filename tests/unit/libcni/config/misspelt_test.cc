#include "libcni/config/misspelt.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using cni::Complaint;
using cni::Key;
using cni::misspelt_keys;
using cni::Type;
using nlohmann::json;

namespace {

constexpr Key kRouteKeys[] = {{.name = "dst"}};
constexpr Key kMappingKeys[] = {{.name = "hostPort", .type = Type::kInteger}};
constexpr Key kRuntimeKeys[] = {
    {.name = "portMappings", .type = Type::kObject, .lists = 1, .keys = kMappingKeys}};
constexpr Key kSlipKeys[] = {
    {.name = "bridge"},
    {.name = "isGateway", .type = Type::kBool},
    {.name = "routes", .type = Type::kObject, .lists = 2, .keys = kRouteKeys},
    {.name = "runtimeConfig", .type = Type::kObject, .keys = kRuntimeKeys, .open = true}};
constexpr cni::Manual kSlips{.purpose = "", .keys = kSlipKeys};

}  // namespace

TEST_CASE("a key that resembles a known one beside it is misspelt") {
  const auto found = misspelt_keys(
      kSlips,
      {{"brigde", 1}, {"routes", {{{{"dts", 1}, {"dst", "x"}}}}}, {"far", 1}, {"bridge", 5}});
  const std::vector<Complaint> expected{{"routes[0][0].dts", cni::kUnknownKey, "dst"},
                                        {"brigde", cni::kUnknownKey, "bridge"}};
  CHECK(found == expected);
}

TEST_CASE("a capability that resembles a known one is misspelt") {
  const auto found =
      misspelt_keys(kSlips, {{"capabilities", {{"portMapings", true}, {"mac", true}}}});
  CHECK(found ==
        std::vector<Complaint>{{"capabilities.portMapings", cni::kUnknownKey, "portMappings"}});
}

TEST_CASE("keys of the runtime, of other places and of other plugins are not misspelt") {
  CHECK(misspelt_keys(kSlips,
                      {{"runtimeConfig", {{"portMappings", {{{"hostport", 1}, {"hostPrt", 1}}}}}},
                       {"prevResult", {{"bridg", 1}}},
                       {"dst", "in routes alone"},
                       {"gateway", "of an IPAM plugin"},
                       {"BRIDGE", "by case"}})
            .empty());
  const cni::Manual ipam{.purpose = "", .keys = kSlipKeys, .facts = {cni::Fact::kIpam}};
  CHECK(misspelt_keys(ipam, {{"brigde", 1}}).empty());
}
