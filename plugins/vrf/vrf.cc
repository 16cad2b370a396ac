#include <limits>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "libcni/config/keys.h"
#include "libcni/config/names.h"
#include "libcni/config/result.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/privileges.h"
#include "libcni/plugin/repair.h"
#include "plugins/common/link/link_keys.h"
#include "plugins/common/link/pod_link.h"
#include "plugins/common/link/pod_states.h"
#include "plugins/vrf/facts.h"
#include "plugins/vrf/membership.h"

namespace vrf {

namespace {

using cni::cat;
using netlink::Capability;
using plugins::Namespaces;

constexpr std::uint32_t kFirstOfKernel = 253;  // default, main, local
constexpr std::uint32_t kLastOfKernel = 255;

void read_name(const cni::Reader& place, Conf& conf) {
  if (!place.present() || place.as_string().empty()) {
    place.refuse("configuration is expected to have a valid vrf name");
  }
  conf.name = place.as_string();
  if (!cni::is_link_name(conf.name)) place.fail(cat("expected ", plugins::kLinkName));
}

void read_table(const cni::Reader& place, Conf& conf) {
  constexpr std::int64_t kMax = std::numeric_limits<std::uint32_t>::max();
  conf.table = static_cast<std::uint32_t>(place.as_int(0, kMax));
  if (conf.table >= kFirstOfKernel && conf.table <= kLastOfKernel) {
    place.fail("is one of the kernel's own tables (253 default, 254 main, 255 local)");
  }
}

constexpr auto kKeys = cni::keys(
    cni::custom<read_name>({.name = "vrfname",
                            .description = "name of the VRF in the pod; it is created where it "
                                           "does not exist. Several networks may share one",
                            .pattern = plugins::kLinkNamePattern,
                            .fits = plugins::is_link_name,
                            .expected = plugins::kLinkName,
                            .required = true}),
    cni::custom<read_table>(
        {.name = "table",
         .description = "number of the VRF's routing table; 0: that of a VRF that exists, or else "
                        "the first from 1 on to which no rule leads, and that has no route",
         .default_text = "0",
         .type = cni::Type::kInteger,
         .maximum = std::numeric_limits<std::uint32_t>::max()}));

constinit const cni::Manual kManual{
    .purpose =
        "puts a pod's interface into a VRF of the pod, chained after the plugin that created the "
        "interface",
    .keys = kKeys,
    .facts = kFacts};

Conf parse(const cni::Request& request) {
  Conf conf;
  cni::read_keys(request.reader(), kKeys, conf);
  return conf;
}

cni::Result require_prev_result(const cni::Request& request) {
  return plugins::require_prev_result(request, "missing prevResult from earlier plugin");
}

cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = parse(request);
  cni::Result result = require_prev_result(request);
  cni::during("cmdAdd failed", [&] {
    Namespaces sides(request, cni::enter_netns(request));
    join(sides, conf, undo);
  });
  return result;
}

Conf readable(const cni::Request& request) try {
  return parse(request);
} catch (const cni::Error&) {  // what ADD refused
  return {};
}

void del(const cni::Request& request) {
  plugins::delete_by_state<State>(
      request, leave, [&](Namespaces& sides, const netlink::Link& link, bool /*has_states*/) {
        leave_named(sides, link, readable(request).name);
      });
}

void check(const cni::Request& request) {
  const Conf conf = parse(request);
  const cni::Result result = require_prev_result(request);
  plugins::require_readable_state<State>(request);
  Namespaces sides(request, cni::enter_netns(request));
  check_membership(sides, conf);
  check_routing(sides, conf, result);
}

void gc(const cni::Request& request, cni::Collect& collect) {
  plugins::collect_states<State>(request, collect, leave);
}

void status(const cni::Request& request) {
  parse(request);
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  netlink::RouteSocket host;
  plugins::require_kind(host, "vrf");
}

void validate(const cni::Request& request) {
  parse(request);
  require_prev_result(request);
}

cni::Result repair(const cni::Request& request, cni::Repair& repair) {
  const Conf conf = parse(request);
  cni::Result result = require_prev_result(request);
  Namespaces sides(request, cni::enter_netns(request));
  cni::Undo undo;
  if (!repair.part([&] { check_membership(sides, conf); }, [&] { join(sides, conf, undo); })) {
    return result;
  }
  repair.part([&] { check_routing(sides, conf, result); },
              [&] {
                add_missing(sides, conf, result);
                check_routing(sides, conf, result);
              });
  undo.commit();
  return result;
}

}  // namespace

extern constinit const cni::Plugin kPlugin{
    .name = "vrf", .verbs = {add, del, check, gc, status, validate, repair}, .manual = &kManual};

}  // namespace vrf
