#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "libcni/config/keys.h"
#include "libcni/config/result.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/privileges.h"
#include "libcni/plugin/repair.h"
#include "plugins/common/link/prev_interface.h"
#include "plugins/common/link/route_tables.h"
#include "plugins/sbr/routing.h"

namespace sbr {

namespace {

using cni::cat;
using cni::Code;
using netlink::Capability;
using netlink::NetNs;
using netlink::RouteSocket;

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
    .keys = kKeys};

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
  auto result = request.prev_result();
  if (result) return *std::move(result);
  throw cni::Error(Code::kInvalidConfig, "This plugin must be called as chained plugin",
                   "prevResult is missing");
}

// Gives each address of the interface a rule, and its own table with the interface's routes.
cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = parse(request);
  cni::Result result = require_prev_result(request);
  const auto addresses = addresses_of(request, result, conf);
  Pod pod(request);
  set_routing(pod, addresses, conf, undo);
  return result;
}

// What the state says, if the namespace is still the one that ADD saw.
void remove(const StateDir& states, const State& state, const std::string& netns) {
  if (const auto ns = NetNs::find(netns)) {
    RouteSocket pod(*ns);
    if (state.owner.is_in(pod.cookie())) remove_routing(pod, state);
  }
  states.remove(state.owner);
}

std::optional<std::uint32_t> readable_table(const cni::Request& request) try {
  return parse(request).table;
} catch (const cni::Error&) {  // what ADD refused
  return std::nullopt;
}

void del(const cni::Request& request) {
  const auto states = StateDir::find();
  const auto owner = plugins::state_owner(request);
  if (const auto state = states ? states->read_or_remove(owner) : std::nullopt) {
    cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
    const auto lock = plugins::lock_route_tables();
    return remove(*states, *state, request.netns);
  }
  const auto ns = NetNs::find(request.netns);
  if (!ns) return;
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  RouteSocket pod(*ns);
  const auto link = plugins::interface_of_prev_result(pod, request);
  if (!link || (states && states->is_of_another(request, pod.cookie()))) return;
  // Without the directory no ADD here could keep a state.
  remove_stateless_rules(pod, *link, readable_table(request), !states);
}

void check(const cni::Request& request) {
  const Conf conf = parse(request);
  const auto addresses = addresses_of(request, require_prev_result(request), conf);
  cni::require_capabilities(request, {Capability::kSysAdmin});
  Pod pod(request);
  check_routing(pod, addresses, conf);
}

// Of this network's attachments that are not listed.
void gc(const cni::Request& request, cni::Collect& collect) {
  const auto states = StateDir::find();
  if (!states) return;
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  cni::BestEffort each;
  for (const State& state : states->taken_by(collect)) {
    each(cat("remove the rules of '", state.owner.container_id, "'"), [&] {
      const auto lock = plugins::lock_route_tables();
      remove(*states, state, state.owner.netns);
    });
  }
  each.finish();
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
  Pod pod(request);
  cni::Undo undo;
  repair.part([&] { check_routing(pod, addresses, conf); },
              [&] { set_routing(pod, addresses, conf, undo); });
  undo.commit();
  return result;
}

}  // namespace

extern constinit const cni::Plugin kPlugin{.name = "sbr",
                                           .add = add,
                                           .del = del,
                                           .check = check,
                                           .gc = gc,
                                           .status = status,
                                           .validate = validate,
                                           .manual = &kManual,
                                           .repair = repair,
                                           .loading = "failed to parse network configuration"};

}  // namespace sbr
