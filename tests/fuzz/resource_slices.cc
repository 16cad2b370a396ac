// Objects of the API server about ResourceSlices of a node, and what is to be done with them.
#include <nlohmann/json.hpp>

#include "libcni/config/json.h"
#include "plugins/devices/agent/dra/slices/own_slices.h"
#include "plugins/devices/agent/dra/slices/wanted.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace devices::dra;
  const Publisher us{"devices.patchbay", "n1"};
  fuzz::accepts([&] {
    const Json object = cni::parse_json(fuzz::text_of(data, size), "the object");
    const Json content = content_of(object);
    attributes_in({content, object});
    fuzz::require(digest_of(content).size() == 32, "a digest has one length");
    const auto slice = own_slice(object, us);
    if (!slice) return;
    const Wish wish{.of = us, .digests = {digest_of(content)}, .owner = "u", .generation = 3};
    OwnSlices own = {{slice->name, *slice}};
    Plan plan = plan_of(own, wish);
    fuzz::require(plan.generation >= 3, "the generation does not fall");
    for (const Plan::Write& write : plan.writes) {
      const auto stored = own_slice(object_of(plan, write, wish, content), us);
      fuzz::require(stored && stored->digest == wish.digests[0], "a slice is read as written");
      own.insert_or_assign(stored->name, *stored);
    }
    for (const Slice& one : plan.removals) own.erase(one.name);
    const Plan rest = plan_of(own, wish);
    fuzz::require(rest.removals.empty(), "one pass removes all that is foreign");
    fuzz::require(rest.empty() || !plan.removals.empty(), "what is right is not written again");
  });
  return 0;
}
