#include "plugins/cluster-pool/agent/dead_nodes.h"

#include <doctest/doctest.h>

#include "tests/unit/block_agent/memory_engine.h"

namespace block_agent {
namespace {

using std::chrono::seconds;

TEST_CASE("blocks are released when a Node object has not existed for the time, at each look") {
  Memory memory;
  memory.nodes = {{"n1", true}, {"n2", true}};
  const Engine engine = engine_of(memory, true);
  View view;
  for (const char* node : {"n1", "n2"}) {
    Object one{
        .network = "net",
        .cidr = *netlink::Cidr::parse(node == std::string("n1") ? "10.5.0.0/28" : "10.5.0.16/28"),
        .node = node,
        .machine = "m",
        .claim = new_claim()};
    memory.create(one);
    view.put(one);
  }
  DeadNodes dead("n1", seconds(3600), &engine);
  CHECK(dead.look(view, seconds(0)) == 0);
  memory.nodes["n2"] = false;
  for (const int at : {300, 600, 3000}) CHECK(dead.look(view, seconds(at)) == 0);

  SUBCASE("it is gone") {
    CHECK(dead.look(view, seconds(3900)) == 1);
    CHECK(memory.objects.size() == 1);
  }
  SUBCASE("it was there once meanwhile") {
    memory.nodes["n2"] = true;
    CHECK(dead.look(view, seconds(3300)) == 0);
    memory.nodes["n2"] = false;
    CHECK(dead.look(view, seconds(3900)) == 0);
    CHECK(dead.look(view, seconds(4200)) == 0);
  }
  SUBCASE("the API server does not answer: unknown") {
    memory.is_away = true;
    CHECK_THROWS(dead.look(view, seconds(3900)));
    CHECK(memory.objects.size() == 2);
  }
}

}  // namespace
}  // namespace block_agent
