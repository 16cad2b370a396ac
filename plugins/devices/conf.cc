#include "plugins/devices/conf.h"

#include "libcni/common/undo.h"
#include "libcni/config/keys.h"
#include "libcni/config/names.h"
#include "libcni/daemon/unix_socket.h"
#include "plugins/devices/facts.h"

namespace devices {

namespace {

bool is_absolute(const std::string& path) { return path.starts_with('/'); }

bool is_socket_path(const std::string& path) {
  return is_absolute(path) && path.size() <= cni::kMaxSocketPath;
}

// A number of up to five digits follows.
bool is_prefix(const std::string& text) {
  constexpr std::size_t kMax = 10;
  return text.size() <= kMax && cni::is_link_name(text);
}

constexpr auto kLedgerDirKey =
    cni::text<&Conf::ledger_dir>({.name = "ledgerDir",
                                  .description = "folder of the ledger of patchbay-agent",
                                  .default_text = "`/var/lib/cni/devices`",
                                  .pattern = "^/",
                                  .fits = is_absolute,
                                  .expected = "an absolute path",
                                  .or_empty = true});

constexpr auto kKeys = cni::keys(
    cni::text<&Conf::prefix>(
        {.name = "prefix",
         .description = "names of the interfaces in the pod: the prefix and the next free number, "
                        "from 1. A pool can have a name of its own",
         .default_text = "`net`",
         .pattern = "^[^/:% \\t\\n\\v\\f\\r\\x00]{1,10}$",
         .fits = is_prefix,
         .expected = "the beginning of an interface name, at most 10 bytes"}),
    cni::key<&Conf::required>(
        {.name = "required",
         .description = "fails ADD of a pod that has no device, for networks that are of no use "
                        "without one",
         .default_text = "false"}),
    cni::key<&Conf::timeout>(
        {.name = "timeout",
         .description = "seconds that ADD waits for an answer of patchbay-agent",
         .default_text = "10",
         .minimum = 1,
         .maximum = 120}),
    cni::text<&Conf::socket>({.name = "agentSocket",
                              .description = "socket of patchbay-agent",
                              .default_text = "`/run/cni/devices.sock`",
                              .pattern = "^/[\\s\\S]{0,106}$",
                              .fits = is_socket_path,
                              .expected = "an absolute path of at most 107 bytes",
                              .or_empty = true}),
    kLedgerDirKey);

}  // namespace

constinit const cni::Manual kManual{
    .purpose =
        "attaches the devices that a pod asks for, chained after the plugin that creates "
        "its interface",
    .keys = kKeys,
    .facts = kFacts};

Conf Conf::parse(const cni::Request& request) {
  Conf conf;
  cni::read_keys(request.reader(), kKeys, conf);
  return conf;
}

std::string ledger_dir_of(const cni::Request& request) try {
  constexpr auto kOnly = cni::keys(kLedgerDirKey);
  Conf conf;
  cni::read_keys(request.reader(), kOnly, conf);
  return conf.ledger_dir;
} catch (const cni::Error& e) {
  cni::note(cni::cat(e.what(), "; ADD refuses it, and the default is used"));
  return Conf().ledger_dir;
}

}  // namespace devices
