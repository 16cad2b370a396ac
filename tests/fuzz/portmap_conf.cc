// The config of portmap, and what of it does not depend on the node: claims, tables, and rules.
#include "plugins/portmap/conf.h"
#include "plugins/portmap/iptables/rules.h"
#include "plugins/portmap/nftables/elements.h"
#include "plugins/portmap/nftables/rules.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/plugin_conf.h"

namespace {

using namespace portmap;
using fuzz::require;

Attachment attachment_of(const cni::Request& request, const Conf& conf) {
  Attachment out;
  out.owner = {request.network, request.container_id, request.ifname};
  out.options = conf.options;
  if (const auto result = request.prev_result()) out.pod = pod_addresses(*result, request.ifname);
  out.claims = claims_of(conf.mappings, out.pod);
  return out;
}

void plan_rules(const Attachment& one, Family family) {
  netlink::nf::Batch batch;
  for (const auto& chain : nft::chains_of({family, one.options, {Ip::any(family).bits()}})) {
    batch.add(chain.chain);
    for (const auto& rule : chain.rules) batch.add(rule);
  }
  for (const auto& [set, elements] : nft::elements_of(one, one.claims)) batch.add(set, elements);
  require(!batch.dump().empty(), "a table has something in it");
  for (const auto& change : batch.changes()) encode(change);
  fuzz::accepts([&] { iptables::rules_to_add(iptables::wanted_of(family, one), {}); });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto request = fuzz::request_in(fuzz::text_of(data, size));
  if (!request) return 0;
  const auto readable = readable_mappings(*request);  // whatever the config
  if (!fuzz::takes(*request, portmap::kPlugin.verbs.validate)) return 0;
  const Conf conf = Conf::parse(*request);
  for (const Mapping& one : conf.mappings) {
    require(one.host_port != 0 && one.container_port != 0, "a port is not 0");
  }
  require(readable == conf.mappings, "DEL knows the mappings of ADD");
  const Attachment one = attachment_of(*request, conf);
  if (one.claims.empty()) return 0;
  for (const Family family : {Family::kIpv4, Family::kIpv6}) plan_rules(one, family);
  require(Container::from(Container{{one}}.text()) == Container{{one}},
          "the state file is read as it was written");
  return 0;
}
