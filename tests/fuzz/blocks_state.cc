// State files of cluster-pool and patchbay-agent, and the blocks of the pools in them.
#include "plugins/state/blocks.h"
#include "tests/fuzz/fuzz.h"

namespace {

using fuzz::require;

void walk(const blocks::Range& range) {
  auto block = range.first_block();
  for (int i = 0; block && i < 20; ++i) {
    const std::uint64_t size = range.size_of(*block);
    require(range.has_block(*block) && size != 0, "a block of the walk has an address");
    for (const auto& run : range.runs_in(*block)) {
      require(run.start <= run.end && block->contains(run.start) && block->contains(run.end),
              "a run lies in its block");
      require(range.contains(run.start) && range.contains(run.end), "and in the range");
      require(run.start == range.gateway || range.gives(run.start), "and is not excluded");
    }
    const auto next = range.next_block(*block);
    require(!next || next->ip > block->ip, "the walk goes on");
    block = next;
  }
  require(range.blocks() != 0, "a range has a block");
}

template <class State>
std::optional<State> try_as(const std::string& text) {
  std::optional<State> state;
  fuzz::accepts([&] { state = State::from(text); });
  if (state) require(State::from(state->text()) == state, "a file is read as it was written");
  return state;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  try_as<blocks::Nodes>(text);
  try_as<blocks::Want>(text);
  const auto held = try_as<blocks::Held>(text);
  if (!held) return 0;
  for (const auto& set : held->pool.sets) {
    for (const auto& range : set) walk(range);
  }
  for (const auto& block : held->blocks) held->pool.set_of(block.cidr);
  return 0;
}
