#include "plugins/firewall/claims.h"

#include <doctest/doctest.h>

using firewall::Backend;
using firewall::Claim;

TEST_CASE("a claim is read back as it was written") {
  for (const Claim& claim :
       {Claim{"0123456789abcdef-0123456789abcdef", Backend::kIptables, ""},
        Claim{"0123456789abcdef-0123456789abcdef", Backend::kFirewalld, "trusted"}}) {
    CHECK(Claim::from(claim.text()) == claim);
  }
}

TEST_CASE("another text is none") {
  for (const char* text :
       {"", " ", "owner", "owner ", "owner nftables", "owner ufw", " iptables"}) {
    CHECK_FALSE_MESSAGE(Claim::from(text).has_value(), text);
  }
}
