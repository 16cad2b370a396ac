#include "plugins/devices/agent/commands.h"

#include <cerrno>
#include <chrono>
#include <iostream>

#include "libcni/common/error.h"
#include "libcni/daemon/client.h"
#include "plugins/devices/agent/dra/slices/withdraw.h"
#include "plugins/devices/agent/pools/pools.h"
#include "plugins/devices/protocol/message.h"

namespace devices {

using cni::cat;

namespace {

// Pods keep their devices while the API server is away: no exit status of its own, by which a
// liveness probe would end the agent.
void print(const SlicesStatus& slices) {
  std::cout << cat("ResourceSlices: ", slices.devices, slices.devices == 1 ? " device" : " devices",
                   ", generation ", slices.generation, "\n")
            << std::flush;
  if (slices.error.empty()) return;
  std::cerr << "patchbay-agent: the ResourceSlices are not up to date: " << slices.error << '\n';
}

}  // namespace

std::string ask_agent(const std::string& socket, std::string_view line) try {
  return cni::exchange_line(socket, line, std::chrono::seconds(5), kMaxAnswer);
} catch (const netlink::Error& e) {
  const bool is_absent = e.error() == ENOENT || e.error() == ECONNREFUSED;
  throw cni::Error(
      cni::Code::kInternal, cat(is_absent ? "no agent runs: " : "", e.what()),
      is_absent ? "the agent's log says why it ended: journalctl -u patchbay-agent" : "");
}

int print_status(const std::string& socket) {
  const auto answer = answer_in(ask_agent(socket, line_of({.verb = Verb::kStatus})));
  if (answer.error) throw cni::Error(*answer.error);
  bool are_read = true;
  for (const ResourceState& one : answer.resources) {
    std::cout << cat(one.name, ": ", one.devices, one.devices == 1 ? " device, " : " devices, ",
                     one.healthy, " healthy", one.is_read ? "" : ", not read by the kubelet", "\n")
              << std::flush;
    if (one.is_read) continue;
    are_read = false;
    std::cerr << "patchbay-agent: the kubelet does not read the list of '" << one.name
              << "': no pod gets its devices. Is the kubelet running? Its log says more\n";
  }
  if (answer.slices) print(*answer.slices);
  return are_read ? 0 : 1;
}

int withdraw(const std::string& config) {
  const Pools pools = Pools::load(config);
  if (!pools.dra) return 0;
  const std::size_t count = dra::withdraw_slices(*pools.dra);
  std::cout << cat("removed ", count, count == 1 ? " ResourceSlice\n" : " ResourceSlices\n");
  return 0;
}

}  // namespace devices
