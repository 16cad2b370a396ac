// State files of sbr, tuning and vrf: one input is read as each.
#include "plugins/sbr/state.h"
#include "plugins/tuning/state.h"
#include "plugins/vrf/state.h"
#include "tests/fuzz/fuzz.h"

namespace {

template <class State>
void try_as(const std::string& text) {
  std::optional<State> state;
  fuzz::accepts([&] { state = State::from(text); });
  if (!state) return;
  fuzz::require(State::from(state->text()) == state, "a state file is read as it was written");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  try_as<sbr::State>(text);
  try_as<vrf::State>(text);
  try_as<tuning::State>(text);
  return 0;
}
