#include "plugins/flannel/conf.h"

#include <nlohmann/json.hpp>

#include "libcni/common/undo.h"
#include "libcni/config/keys.h"
#include "plugins/flannel/facts.h"

namespace flannel {

namespace {

using cni::cat;
using cni::Code;
using cni::Reader;

bool is_absolute(const std::string& path) { return path.starts_with('/'); }

template <cni::JsonValue Conf::*kMember>
void read_object(const Reader& place, Conf& conf) {
  place.has("");  // throws unless the value is an object
  conf.*kMember = nlohmann::json(place.json());
}

constexpr cni::Key kDelegateKeys[] = {{.name = "type",
                                       .description = "the plugin that makes the interface",
                                       .default_text = "`bridge`",
                                       .type = cni::Type::kString}};

constexpr auto kDataDirKey =
    cni::text<&Conf::data_dir>({.name = "dataDir",
                                .description = "directory of the state files, for DEL",
                                .default_text = "`/var/lib/cni/flannel`",
                                .pattern = "^/",
                                .fits = is_absolute,
                                .expected = "an absolute path",
                                .or_empty = true});

constexpr auto kKeys = cni::keys(
    cni::key<&Conf::subnet_file>({.name = "subnetFile",
                                  .description = "the file that flanneld writes",
                                  .default_text = "`/run/flannel/subnet.env`"}),
    kDataDirKey,
    cni::custom<read_object<&Conf::delegate>>(
        {.name = "delegate",
         .description = "config of the plugin that makes the interface, without `name` and `ipam`",
         .type = cni::Type::kObject,
         .keys = kDelegateKeys,
         .open = true}),
    cni::custom<read_object<&Conf::ipam>>(
        {.name = "ipam",
         .description = "config of the delegate's IPAM plugin; `type` is `host-local` by default, "
                        "`ranges` is replaced, `routes` is completed",
         .type = cni::Type::kObject,
         .open = true}),
    cni::custom<read_object<&Conf::runtime_config>>(
        {.name = "runtimeConfig",
         .description = "passed to the delegate: a capability of the delegate is declared in the "
                        "object of flannel",
         .type = cni::Type::kObject,
         .open = true}));

cni::Error unloaded(Code code, std::string_view why, const std::string& details) {
  return {code,
          cat("failed to load flannel 'subnet.env' file: ", why,
              ". Check the flannel pod log for this node."),
          details};
}

std::optional<cni::SubnetEnv> read_subnet_env(const std::string& file) try {
  return cni::SubnetEnv::read(file);
} catch (const netlink::Error& e) {
  throw unloaded(Code::kIoFailure, cat("open ", file, ": ", netlink::errno_text(e.error())), {});
} catch (const cni::Error& e) {
  throw unloaded(e.code(), e.what(), e.details());
}

}  // namespace

constinit const cni::Manual kManual{
    .purpose = "gives pods addresses of the node's flannel subnet, by another plugin",
    .keys = kKeys,
    .facts = kFacts};

Conf Conf::parse(const cni::Request& request) {
  Conf conf;
  cni::read_keys(request.reader(), kKeys, conf);
  return conf;
}

std::string data_dir_of(const cni::Request& request) try {
  constexpr auto kOnly = cni::keys(kDataDirKey);
  Conf conf;
  cni::read_keys(request.reader(), kOnly, conf);
  return conf.data_dir;
} catch (const cni::Error& e) {
  cni::note(cat(e.what(), "; ADD refuses it, and the default is used"));
  return names::kFlannelDataDir;
}

cni::SubnetEnv load_subnet_env(const Conf& conf) {
  const auto env = read_subnet_env(conf.subnet_file);
  if (!env) {
    throw unloaded(Code::kTryAgainLater,
                   cat("open ", conf.subnet_file, ": ", netlink::errno_text(ENOENT)),
                   "flanneld writes it when it has the subnet of this node");
  }
  const auto missing = env->missing();
  if (missing.empty()) return *env;
  std::string keys;
  for (const std::string_view key : missing) keys += cat(keys.empty() ? "" : ", ", key);
  throw unloaded(Code::kTryAgainLater, cat(conf.subnet_file, " is missing ", keys), {});
}

}  // namespace flannel
