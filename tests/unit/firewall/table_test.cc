#include "plugins/firewall/table.h"

#include <doctest/doctest.h>

#include <algorithm>

using firewall::nft::plan_bridge_table;
using firewall::nft::plan_table;
using netlink::nf::Batch;

TEST_CASE("the first pod gets the table, in an order that the kernel takes") {
  Batch batch;
  plan_table({}, "CNI-ADMIN", batch);
  const std::string text = batch.dump();
  CAPTURE(text);
  const auto at = [&](const char* what) { return text.find(what); };
  CHECK(at("chain inet patchbay_firewall CNI-ADMIN") < at("jump -> CNI-ADMIN"));
  CHECK(at("chain inet patchbay_firewall isolation") < at("jump -> isolation"));
  CHECK(at("jump -> isolation") < at("jump -> admin"));
  CHECK(at("set inet patchbay_firewall pods4") < at("lookup"));
  CHECK(at("same_bridge") != std::string::npos);
}

TEST_CASE("the base chains have no policy, so that an operator's stays") {
  Batch batch;
  plan_table({}, "CNI-ADMIN", batch);
  plan_bridge_table({}, batch);
  int bases = 0;
  for (const auto& change : batch.changes()) {
    const auto* const chain = std::get_if<netlink::nf::Chain>(&change);
    if (chain == nullptr || !chain->hook) continue;
    ++bases;
    CHECK_FALSE(chain->hook->policy.has_value());
  }
  CHECK(bases == 2);
}

TEST_CASE("what is missing is named") {
  CHECK(firewall::nft::table_flaw({}, "CNI-ADMIN") ==
        "chain 'inet patchbay_firewall admin' is not as it should be");
  CHECK(firewall::nft::bridge_table_flaw({}) ==
        "chain 'bridge patchbay_firewall forward' is not as it should be");
}
