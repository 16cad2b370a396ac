#include "plugins/firewall/claims.h"

#include <doctest/doctest.h>

using firewall::AddressClaim;
using firewall::Backend;

TEST_CASE("a claim is read back as it was written") {
  for (const AddressClaim& claim :
       {AddressClaim{"0123456789abcdef-0123456789abcdef", Backend::kIptables, ""},
        AddressClaim{"0123456789abcdef-0123456789abcdef", Backend::kFirewalld, "trusted"}}) {
    CHECK(AddressClaim::from(claim.text()) == claim);
  }
}

TEST_CASE("another text is none") {
  for (const char* text :
       {"", " ", "owner", "owner ", "owner nftables", "owner ufw", " iptables"}) {
    CHECK_FALSE_MESSAGE(AddressClaim::from(text).has_value(), text);
  }
}
