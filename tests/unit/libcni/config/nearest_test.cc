#include "libcni/config/nearest.h"

#include <doctest/doctest.h>

using cni::nearest;

TEST_CASE("a slip of the pen is recognised, whatever kind it is") {
  const std::vector<std::string> words{"isGateway", "isDefaultGateway", "ipMasq", "mtu", "vlan"};
  CHECK(nearest("isGatway", words) == "isGateway");    // left out
  CHECK(nearest("isGateeway", words) == "isGateway");  // too many
  CHECK(nearest("isGatewat", words) == "isGateway");   // another
  CHECK(nearest("isGatewya", words) == "isGateway");   // swapped
  CHECK(nearest("is_gateway", words) == "isGateway");  // another spelling
  CHECK(nearest("defaultGateway", words) == "isDefaultGateway");
  CHECK(nearest("MTU", words) == "mtu");
  CHECK(nearest("mut", words) == "mtu");
}

TEST_CASE("of several near words the nearest is meant") {
  CHECK(nearest("conditionsV5", {"conditionsV4x", "conditionsV4", "conditionsV6"}) ==
        "conditionsV4");
}

TEST_CASE("neither the word itself nor a hidden file is meant") {
  CHECK(nearest("web", {"web", "db"}).empty());
  CHECK(nearest("web", {"web", "wep"}) == "wep");
  CHECK(nearest("patchbay", {".patchbay"}).empty());
  CHECK(nearest(".patchbai", {".patchbay"}) == ".patchbay");
}

TEST_CASE("what is far from all words means none") {
  const std::vector<std::string> words{"isGateway", "mtu", "ip"};
  CHECK(nearest("gateway", {"bridge", "mtu"}).empty());
  CHECK(nearest("dns", words).empty());
  CHECK(nearest("x", words).empty());
  CHECK(nearest("", words).empty());
  CHECK(nearest("mtu", {}).empty());
  CHECK(nearest(std::string(100000, 'x'), words).empty());
}
