// The config of bandwidth, and its arithmetic: what queues and programs are told on links of
// several sizes. The plugin keeps no state but that in the kernel (see rtnetlink.cc).
#include "plugins/bandwidth/conf.h"
#include "plugins/bandwidth/edt_program.h"
#include "plugins/bandwidth/queue.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/plugin_conf.h"

namespace {

using namespace bandwidth;
using fuzz::require;

void plan(const Conf& conf, unsigned mtu) {
  const netlink::tc::Ticks ticks;
  const auto look = [&](const Limit& limit, Direction direction) {
    const Plan made = plan_for(conf, direction, mtu, ticks);
    require(made.shape.rate > 0, "a rate is not 0");
    require(made.shape.horizon().count() >= 0, "a horizon is in the future");
    netlink::tc::replace({.index = 2, .name = "eth0"}, {.kind = tbf_of(made.shape)});
    wrapped_shape_of(limit, ticks);
    const edt::Limit edt_limit{made.shape.rate, made.shape.burst, made.shape.horizon()};
    const EdtConstants constants = edt::constants_of(edt_limit);
    require(constants.rate > 0 && constants.credit <= 1ULL << 62, "constants are in range");
    edt::queue_of(edt_limit);
    require(edt::packet_size_of(edt_limit, mtu, edt::kUsualPacketSize) > 0, "a packet has a size");
  };
  if (conf.ingress) look(*conf.ingress, Direction::kIngress);
  if (conf.egress) look(*conf.egress, Direction::kEgress);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto request = fuzz::request_in(fuzz::text_of(data, size));
  if (!request) return 0;
  DelConf::parse(*request);  // whatever the config
  fuzz::takes(*request, bandwidth::kPlugin.verbs.validate);
  std::optional<Conf> conf;
  if (!fuzz::accepts([&] { conf = Conf::parse(*request); })) return 0;
  for (const unsigned mtu : {0U, 1500U, 65535U, 0xffffffffU}) plan(*conf, mtu);
  return 0;
}
