// A DHCP client whose server says anything: messages, and time that passes.
#include <algorithm>

#include "plugins/dhcp/daemon/client.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace dhcp;
using fuzz::require;

// What holds after each step.
void look_at(const Client& client, const Actions& actions) {
  require(!actions.bound || client.lease(), "who is bound has a lease");
  require(actions.packets.size() <= 2, "an answer is not many");
  for (const Outgoing& outgoing : actions.packets) {
    require(!outgoing.message.reply && outgoing.message.type(), "a client asks");
  }
  const auto state = client.state();
  const bool has = state == Client::State::kBound || state == Client::State::kRenewing ||
                   state == Client::State::kRebinding;
  require(!has || client.lease(), "a state has its lease");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  netlink::View input(data, size);
  std::uint32_t number = 1;
  const bool probes = size % 2 == 1;
  Client client({.client_id = {0}, .wanted = {3}, .probe = probes}, {}, [&] { return number; });
  Time now = std::chrono::hours(1);
  look_at(client, client.discover(now));
  for (int step = 0; step < 200 && input.size() >= 4; ++step) {
    const std::uint8_t what = input[0];
    const std::size_t length = std::min<std::size_t>(input.size() - 2, std::size_t{input[1]});
    const netlink::View options = input.subspan(2, length);
    input = input.subspan(2 + length);
    if (what % 4 == 0) {
      require(client.deadline() >= now || client.deadline() <= now, "a deadline is a time");
      if (client.deadline() != kNever) now = std::max(now, client.deadline());
      look_at(client, client.tick(now));
    } else if (what % 4 == 1) {
      look_at(client, client.probed(now, what % 8 == 1));
    } else {
      Bytes bytes = encode(Message{.reply = true, .xid = number});
      bytes.resize(240);
      bytes[19] = static_cast<std::uint8_t>(what >> 2);  // of yiaddr
      bytes[16] = 10;
      bytes.insert(bytes.end(), options.begin(), options.end());
      if (const auto message = decode(bytes)) look_at(client, client.receive(now, *message, {}));
    }
  }
  client.release();
  require(client.deadline() == kNever, "who has released waits for nothing");
  return 0;
}
