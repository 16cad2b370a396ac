// State files of dhcp.
#include "plugins/state/dhcp_lease.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using fuzz::require;
  std::optional<dhcp::State> state;
  fuzz::accepts([&] { state = dhcp::State::from(std::string(fuzz::text_of(data, size)), "b"); });
  if (!state) return 0;
  require(dhcp::State::from(state->text(), "b") == state, "a state file is read as it was written");
  if (!state->lease) return 0;
  require(state->lease->renew <= state->lease->expire, "a lease is renewed before its end");
  require(dhcp::result_of(*state).ips.size() == 1, "a lease is an address");
  return 0;
}
