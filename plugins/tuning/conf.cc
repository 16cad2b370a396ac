#include "plugins/tuning/conf.h"

#include <strings.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "libcni/config/names.h"
#include "plugins/common/link/link_keys.h"
#include "plugins/tuning/facts.h"
#include "plugins/tuning/sysctls.h"

namespace tuning {

namespace {

using cni::cat;
using cni::Code;
using cni::Reader;
using nlohmann::json;

constexpr std::int64_t kMaxPackets = 0x7fffffff;

// A later one of the same key replaces the value.
void put(std::vector<Sysctl>& sysctls, Sysctl one) {
  const auto same =
      std::ranges::find_if(sysctls, [&](const Sysctl& other) { return other.key == one.key; });
  if (same != sysctls.end()) {
    same->value = std::move(one.value);
  } else {
    sysctls.push_back(std::move(one));
  }
}

void read_sysctls(const Reader& place, Conf& conf) {
  if (!place.json().is_object()) place.fail("expected an object of sysctls and their values");
  for (const auto& [key, value] : place.json().items()) {
    const Reader one(value, Code::kInvalidConfig, cat(place.path(), "[", json(key).dump(), "]"));
    if (value.is_null()) continue;
    if (const std::string why = complaint_about(key); !why.empty()) {
      std::string path = key;  // as the reference plugin prints it
      std::ranges::replace(path, '.', '/');
      one.refuse(cat("invalid net sysctl key: ", json(path).dump()), why);
    }
    put(conf.sysctls, {key, one.as_string()});
  }
}

bool is_absolute(const std::string& path) {
  return path.starts_with('/') && path.find('\0') == std::string::npos;
}

constexpr cni::Key kSysctl{
    .name = "sysctl",
    .description =
        "settings below `/proc/sys/net` of the pod and their values, which are strings. They are "
        "set in the config's order. A key has dots or slashes (`net.ipv4.conf.IFNAME.arp_filter`); "
        "what comes first separates, and the other stands for a dot in a name "
        "(`net.ipv4.conf.eth0/100.arp_filter`). `IFNAME` is the container interface",
    .type = cni::Type::kObject,
    .open = true};

constexpr auto kSysctlKey = cni::custom<read_sysctls>(kSysctl);
constexpr auto kPromiscKey = cni::key<&Conf::promiscuous>(
    {.name = "promisc", .description = "true: sets the interface to promiscuous mode"});
constexpr auto kMtuKey = plugins::mtu_key<Conf>(
    "MTU in bytes of the interface, and by default of its host veth, unless that is the port of a "
    "bridge; 0 leaves it as it is");
constexpr auto kAllmultiKey =
    cni::key<&Conf::all_multicast>({.name = "allmulti",
                                    .description = "sets or clears all-multicast mode",
                                    .default_text = "absent"});
constexpr auto kTxQLenKey =
    cni::key<&Conf::tx_queue_length>({.name = "txQLen",
                                      .description = "length of the transmit queue in packets",
                                      .maximum = kMaxPackets});

constexpr auto kDataDirKey = cni::text<&Conf::data_dir>(
    {.name = "dataDir",
     .description = "directory of the files with the earlier settings, for DEL",
     .default_text = "`/run/cni/tuning`",
     .pattern = "^/",
     .fits = is_absolute,
     .expected = "an absolute path",
     .or_empty = true});

constexpr auto kArgsCni =
    cni::keys(kSysctlKey, kPromiscKey, kMtuKey, kAllmultiKey, kTxQLenKey,
              cni::custom<plugins::MacKeys<Conf>::read>(
                  {.name = "mac",
                   .description = "MAC address of the interface; overrides all others",
                   .type = cni::Type::kMac,
                   .or_empty = true}));
constexpr auto kArgs = cni::keys(cni::part<kArgsCni>(
    {.name = "cni",
     .description = "`sysctl`, `mac`, `promisc`, `mtu`, `allmulti`, `txQLen` as above, which they "
                    "override; of `sysctl` key by key",
     .open = true,
     .folded = true}));

constexpr auto kKeys = cni::keys(
    kSysctlKey,
    plugins::mac_key<Conf>("MAC address of the interface. `CNI_ARGS`, `runtimeConfig` and `args` "
                           "override it, in this order"),
    kPromiscKey, kMtuKey,
    cni::key<&Conf::mtu_both_ends>(
        {.name = "mtuBothEnds",
         .description =
             "sets `mtu` on the host veth of the interface, too, unless that is the port of a "
             "bridge",
         .default_text = "true"}),
    kAllmultiKey, kTxQLenKey, kDataDirKey,
    cni::part<plugins::MacKeys<Conf>::kRuntime>({.name = "runtimeConfig", .open = true}),
    cni::part<kArgs>({.name = "args", .open = true}));

// The path that a key leads to is the same in both notations.
std::string setting_of(const std::string& key, const std::string& ifname) {
  return paths_of(key, ifname).front();
}

// One setting in two notations would be set twice, and could not have both values.
void refuse_contradictions(const Reader& place, const std::string& ifname) {
  if (!place.present()) return;
  std::map<std::string, std::pair<std::string, std::string>> seen;
  for (const auto& [key, value] : place.json().items()) {
    if (value.is_null()) continue;
    const auto text = value.get<std::string>();
    const auto [first, is_new] = seen.try_emplace(setting_of(key, ifname), key, text);
    if (is_new || same_value(first->second.second, text)) continue;
    throw cni::Error(Code::kInvalidConfig,
                     cat(place.path(), ": \"", first->second.first, "\" and \"", key,
                         "\" are one setting and have two values: \"", first->second.second,
                         "\", \"", text, "\""));
  }
}

// One setting in two notations, of which the later one is that of args.
void join_notations(std::vector<Sysctl>& sysctls, const std::string& ifname) {
  std::vector<Sysctl> out;
  for (Sysctl& one : sysctls) {
    const auto same = std::ranges::find_if(out, [&](const Sysctl& other) {
      return setting_of(other.key, ifname) == setting_of(one.key, ifname);
    });
    if (same == out.end()) {
      out.push_back(std::move(one));
    } else {
      same->value = std::move(one.value);
    }
  }
  sysctls = std::move(out);
}

// The keys of "sysctl" as the text has them: in their order, and those that are there twice.
std::vector<std::string> sysctl_keys_of(const std::string& input) {
  std::vector<std::string> out;
  bool is_inside = false;
  const auto look = [&](int depth, json::parse_event_t event, const json& parsed) {
    if (event != json::parse_event_t::key) return true;
    const auto& key = parsed.get_ref<const std::string&>();
    if (depth == 1) is_inside = ::strcasecmp(key.c_str(), kSysctl.name) == 0;
    if (depth == 2 && is_inside) out.push_back(key);
    return true;
  };
  const json whole = json::parse(input, look, false);
  return whole.is_discarded() ? std::vector<std::string>() : out;
}

// JSON objects have no order and one value a key; a config's text has both.
void restore_order(const cni::Request& request, Conf& conf) {
  if (conf.sysctls.size() < 2 && !request.reader()["sysctl"].present()) return;
  const auto keys = sysctl_keys_of(request.input);
  for (auto key = keys.begin(); key != keys.end(); ++key) {
    if (std::find(keys.begin(), key, *key) == key) continue;
    throw cni::Error(Code::kInvalidConfig, "duplicated sysctl keys are not allowed",
                     cat("sysctl: \"", *key, "\""));
  }
  const auto rank = [&](const Sysctl& one) { return std::ranges::find(keys, one.key); };
  std::ranges::stable_sort(conf.sysctls,
                           [&](const Sysctl& a, const Sysctl& b) { return rank(a) < rank(b); });
}

}  // namespace

constinit const cni::Manual kManual{
    .purpose =
        "changes sysctls and settings of a pod's interface, chained after the plugin that "
        "created it",
    .keys = kKeys,
    .args = plugins::kMacArgs,
    .facts = kFacts};

bool Conf::changes_link() const {
  return mac || promiscuous || mtu != 0 || all_multicast || tx_queue_length;
}

Conf Conf::parse(const cni::Request& request) {
  Conf conf;
  conf.mac = plugins::mac_from_args(request.args);
  const Reader root = request.reader();
  cni::read_keys(root, kKeys, conf);
  refuse_contradictions(root["sysctl"], request.ifname);
  refuse_contradictions(root["args"]["cni"]["sysctl"], request.ifname);
  join_notations(conf.sysctls, request.ifname);
  restore_order(request, conf);
  return conf;
}

std::string data_dir_of(const cni::Request& request) try {
  Conf conf;
  cni::read_keys(request.reader(), cni::keys(kDataDirKey), conf);
  return conf.data_dir;
} catch (const cni::Error&) {  // what ADD refused
  return kDataDir;
}

}  // namespace tuning
