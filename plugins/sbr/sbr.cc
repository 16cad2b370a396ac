#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "libcni/config/keys.h"
#include "libcni/config/result.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/privileges.h"
#include "libcni/plugin/repair.h"
#include "plugins/common/link/pod_states.h"
#include "plugins/sbr/facts.h"
#include "plugins/sbr/routing.h"

namespace sbr {

namespace {

using netlink::Capability;
using plugins::Namespaces;

constexpr auto kKeys = cni::keys(
    cni::key<&Conf::table>(
        {.name = "table",
         .description =
             "number of a routing table that others fill: ADD makes rules that lead to it, and "
             "moves no routes. Default: tables of their own from 100 on",
         .minimum = 1}),
    cni::key<&Conf::gateways>(
        {.name = "gateways",
         .description = "gateways of the default routes, in place of those of prevResult: at most "
                        "one of each family. Not with `table`",
         .default_text = "prevResult's"}),
    cni::key<&Conf::add_source_hints>(
        {.name = "addSourceHints",
         .description = "routes to the interface's subnets stay in the main table, too, with its "
                        "address as the preferred source. Not with `table`",
         .default_text = "false"}));

constinit const cni::Manual kManual{
    .purpose =
        "routes what a pod sends by its source address, chained after the plugin that created "
        "the interface",
    .keys = kKeys,
    .facts = kFacts};

constexpr const char* kNotWithTable = "has no effect with table, whose routes are others'";

void check_gateways(const cni::Reader& place, const Conf& conf) {
  const auto elements = place.elements();
  bool has_v4 = false, has_v6 = false;
  for (std::size_t i = 0; i < conf.gateways.size(); ++i) {
    const cni::Ip& gateway = conf.gateways[i];
    if (gateway.is_unspecified()) elements[i].fail("expected the address of a gateway");
    bool& has_family = gateway.is_v4() ? has_v4 : has_v6;
    if (has_family) elements[i].fail("expected at most one gateway of each family");
    has_family = true;
  }
}

Conf parse(const cni::Request& request) {
  Conf conf;
  const cni::Reader root = request.reader();
  cni::read_keys(root, kKeys, conf);
  check_gateways(root["gateways"], conf);
  if (!conf.table) return conf;
  if (!conf.gateways.empty()) root["gateways"].fail(kNotWithTable);
  if (conf.add_source_hints) root["addSourceHints"].fail(kNotWithTable);
  return conf;
}

cni::Result require_prev_result(const cni::Request& request) {
  return plugins::require_prev_result(request, "This plugin must be called as chained plugin");
}

// Gives each address of the interface a rule, and its own table with the interface's routes.
cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = parse(request);
  cni::Result result = require_prev_result(request);
  const auto addresses = addresses_of(request, result, conf);
  Namespaces sides(request, cni::enter_netns(request));
  set_routing(sides, addresses, conf, undo);
  return result;
}

Conf readable(const cni::Request& request) try {
  return parse(request);
} catch (const cni::Error&) {  // what ADD refused
  return {};
}

void del(const cni::Request& request) {
  plugins::delete_by_state<State>(
      request, remove_routing, [&](Namespaces& sides, const netlink::Link& link, bool has_states) {
        // No ADD here could keep a state if the directory does not exist.
        remove_stateless_rules(sides.pod, link, readable(request).table, !has_states);
      });
}

void check(const cni::Request& request) {
  const Conf conf = parse(request);
  const auto addresses = addresses_of(request, require_prev_result(request), conf);
  plugins::require_readable_state<State>(request);
  Namespaces sides(request, cni::enter_netns(request));
  check_routing(sides, addresses, conf);
}

void gc(const cni::Request& request, cni::Collect& collect) {
  plugins::collect_states<State>(request, collect, remove_routing);
}

void status(const cni::Request& request) {
  parse(request);
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
}

void validate(const cni::Request& request) {
  parse(request);
  require_prev_result(request);
}

// Makes the rules and routes that are missing, as ADD does.
cni::Result repair(const cni::Request& request, cni::Repair& repair) {
  const Conf conf = parse(request);
  cni::Result result = require_prev_result(request);
  const auto addresses = addresses_of(request, result, conf);
  Namespaces sides(request, cni::enter_netns(request));
  cni::Undo undo;
  repair.part([&] { check_routing(sides, addresses, conf); },
              [&] { set_routing(sides, addresses, conf, undo); });
  undo.commit();
  return result;
}

}  // namespace

extern constinit const cni::Plugin kPlugin{.name = "sbr",
                                           .verbs = {add, del, check, gc, status, validate, repair},
                                           .manual = &kManual,
                                           .loading = "failed to parse network configuration"};

}  // namespace sbr
