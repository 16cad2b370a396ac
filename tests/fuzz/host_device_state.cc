// State files of host-device.
#include "libcni/config/names.h"
#include "plugins/host-device/state.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace host_device;
  using fuzz::require;
  std::optional<State> state;
  fuzz::accepts([&] { state = State::from(std::string(fuzz::text_of(data, size))); });
  if (!state) return 0;
  require(State::from(state->text()) == state, "a state file is read as it was written");
  require(cni::is_link_name(state->device.name), "a device has a name that a link can have");
  require(state->device.index > 0, "a device has an index");
  for (const auto& address : state->device.addresses) {
    require(address.cidr.prefix <= address.cidr.ip.bits(),
            "a prefix is no longer than its address");
  }
  return 0;
}
