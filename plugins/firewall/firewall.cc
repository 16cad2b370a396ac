#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/privileges.h"
#include "libcni/plugin/repair.h"
#include "plugins/common/firewall/iptables_restore.h"
#include "plugins/common/firewall/xt_tables.h"
#include "plugins/common/link/host_veth.h"
#include "plugins/firewall/conf.h"
#include "plugins/firewall/migrate.h"
#include "plugins/firewall/setup.h"

namespace firewall {

namespace {

using cni::cat;
using cni::Code;
using netlink::Capability;

cni::Result require_prev_result(const cni::Request& request) {
  return request.required_prev_result(
      "missing prevResult from earlier plugin",
      "firewall follows the plugin that assigns the pod's addresses");
}

cni::Result require_result(const cni::Request& request, const Conf& conf) {
  cni::Result result = require_prev_result(request);
  require_link(conf, result);
  return result;
}

// Called before any change, because Undo needs the capabilities too. CAP_NET_ADMIN is required
// before: without it nothing can be read.
void require_rights(const cni::Request& request, Backend backend) {
  if (backend == Backend::kIptables &&
      plugins::needs_net_raw(plugins::find_restore(Family::kIpv4))) {
    cni::require_capabilities(request, {Capability::kNetRaw});
  }
}

// Accepts the pod's traffic, and sets the policy of its bridge.
cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = Conf::parse(request);
  cni::Result result = require_result(request, conf);
  const Attachment attachment = attachment_of(request, result);
  cni::require_capabilities(request, {Capability::kNetAdmin});
  Firewalls node;
  const Backend backend = choose_backend(node, conf);
  require_rights(request, backend);
  undo.add(TearDown{conf, attachment});  // before set_up(), which can fail half-way
  set_up(node, conf, attachment, backend);
  return result;
}

void del(const cni::Request& request) {
  cni::require_capabilities(request, {Capability::kNetAdmin});
  Firewalls node;
  tear_down(node, Conf::readable(request),
            attachment_of(request, plugins::readable_prev_result(request)));
}

// The backend that has the attachment, else the one that ADD would use.
Backend used_backend(Firewalls& node, const Conf& conf, const Attachment& attachment) {
  const auto backend = backend_of(node, attachment);
  return backend ? *backend : choose_backend(node, conf);
}

void require_complete(Firewalls& node, const Conf& conf, const Attachment& attachment,
                      Backend backend) {
  const auto flaw = missing(node, conf, attachment, backend);
  if (!flaw) return;
  const bool is_reference = flaw->starts_with("expected ");
  throw cni::Error(Code::kInternal, is_reference ? *flaw : cat("check the firewall: ", *flaw));
}

// \throws cni::Error, which names the first difference from what ADD adds.
void check(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  const Attachment attachment = attachment_of(request, require_result(request, conf));
  cni::require_capabilities(request, {Capability::kNetAdmin});
  plugins::require_readable_legacy("check the firewall", "filter");
  Firewalls node;
  require_complete(node, conf, attachment, used_backend(node, conf, attachment));
}

// Removes what attachments of this network have that are not listed.
void gc(const cni::Request& request, cni::Collect& collect) {
  cni::require_capabilities(request, {Capability::kNetAdmin});
  Firewalls node;
  remove_stale(node, request.network, collect);
}

// \throws cni::Error(kPluginUnavailable), which names what ADD needs and the node lacks.
void status(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  cni::require_capabilities(request, {Capability::kNetAdmin});
  Firewalls node;
  require_rights(request, choose_backend(node, conf));
}

void validate(const cni::Request& request) {
  Conf::parse(request);
  require_prev_result(request);
}

// Adds what CHECK misses, in the backend that has the attachment.
cni::Result repair(const cni::Request& request, cni::Repair& repair) {
  const Conf conf = Conf::parse(request);
  cni::Result result = require_result(request, conf);
  const Attachment attachment = attachment_of(request, result);
  cni::require_capabilities(request, {Capability::kNetAdmin});
  plugins::require_readable_legacy("check the firewall", "filter");
  Firewalls node;
  const Backend backend = used_backend(node, conf, attachment);
  require_rights(request, backend);
  repair.part([&] { require_complete(node, conf, attachment, backend); },
              [&] { set_up(node, conf, attachment, backend); });
  return result;
}

void migrate(const cni::Request& request, cni::Repair& repair) {
  const Conf conf = Conf::parse(request);
  const Attachment attachment = attachment_of(request, require_result(request, conf));
  cni::require_capabilities(request, {Capability::kNetAdmin});
  plugins::require_readable_legacy("migrate the rules of the firewall", "filter");
  require_rights(request, Backend::kIptables);
  Firewalls node;
  firewall::migrate(node, conf, attachment, repair);
}

}  // namespace

extern constinit const cni::Plugin kPlugin{
    .name = "firewall",
    .verbs = {add, del, check, gc, status, validate, repair, nullptr, migrate},
    .manual = &kManual};

}  // namespace firewall
