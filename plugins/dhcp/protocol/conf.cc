#include "plugins/dhcp/protocol/conf.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "libcni/common/split.h"
#include "libcni/common/undo.h"
#include "libcni/config/keys.h"
#include "plugins/dhcp/facts.h"

namespace dhcp {

namespace {

using cni::cat;
using cni::Reader;

constexpr std::size_t kMaxValue = 255;
constexpr const char* kOptionForm =
    "the number of an option, as a string, or subnet-mask, routers, host-name, "
    "vendor-class-identifier, dhcp-client-identifier or user-class";

struct OptionName {
  std::string_view name;
  std::uint8_t code;
};
constexpr OptionName kNames[] = {{"subnet-mask", option::kSubnetMask},
                                 {"routers", option::kRouters},
                                 {"host-name", option::kHostName},
                                 {"vendor-class-identifier", option::kVendorClass},
                                 {"dhcp-client-identifier", option::kClientId},
                                 {"user-class", option::kUserClass}};

// Options that the client itself sets or negotiates.
constexpr std::uint8_t kOwn[] = {
    option::kPad,      option::kRequestedAddress, option::kOverload,    option::kMessageType,
    option::kServerId, option::kParameterList,    option::kMaximumSize, option::kEnd};

std::optional<std::uint8_t> code_of(const std::string& text) {
  for (const OptionName& one : kNames) {
    if (one.name == text) return one.code;
  }
  std::uint8_t code = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, code);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return code;
}

std::uint8_t read_code(const Reader& place) {
  const auto code = code_of(place.as_string());
  if (!code) place.fail(cat("Can not parse option: expected ", kOptionForm));
  return *code;
}

struct Provided {
  std::uint8_t code = 0;
  std::string value, from_arg;
};

void read_provided_code(const Reader& place, Provided& entry) {
  entry.code = read_code(place);
  if (std::ranges::find(kOwn, entry.code) != std::end(kOwn)) {
    place.fail("an option that the client itself sends");
  }
}

void read_value(const Reader& place, Provided& entry) {
  entry.value = place.as_string();
  if (entry.value.size() > kMaxValue) place.fail("expected at most 255 bytes");
}

struct Wanted {
  std::optional<std::uint8_t> code;
  bool skip_default = false;
};

void read_wanted_code(const Reader& place, Wanted& entry) {
  if (place.as_string().empty()) return;
  entry.code = read_code(place);
  if (*entry.code == option::kPad || *entry.code == option::kEnd) {
    place.fail("not an option that a server sends");
  }
}

struct Given {
  Conf conf;
  std::vector<Provided> provided;
  std::vector<Wanted> wanted;
  std::optional<bool> dns;
};

// The reference plugin has no such key. In published configs it is an object, as `dns` beside
// `ipam` is; nobody reads it.
void read_dns(const Reader& place, Given& given) {
  if (!place.json().is_object()) given.dns = place.as_bool();
}

constexpr const char* kOptionPattern =
    "^([0-9]{1,3}|subnet-mask|routers|host-name|vendor-class-identifier|dhcp-client-identifier|"
    "user-class)$";

bool is_option(const std::string& text) { return code_of(text).has_value(); }

constexpr auto kProvideKeys = cni::keys(
    cni::custom<read_provided_code>({.name = "option",
                                     .description =
                                         "the number of an option, as a string, or `host-name`, "
                                         "`vendor-class-identifier`, `dhcp-client-identifier`, "
                                         "`user-class`, `routers` or `subnet-mask`",
                                     .pattern = kOptionPattern,
                                     .fits = is_option,
                                     .expected = kOptionForm,
                                     .required = true}),
    cni::custom<read_value>({.name = "value", .description = "its value, as it is sent"}),
    cni::key<&Provided::from_arg>(
        {.name = "fromArg",
         .description = "the key of `CNI_ARGS` whose value is sent in place of `value`"}));

constexpr auto kRequestKeys = cni::keys(
    cni::custom<read_wanted_code>({.name = "option",
                                   .description = "as in `provide`",
                                   .pattern = kOptionPattern,
                                   .fits = is_option,
                                   .expected = kOptionForm,
                                   .or_empty = true}),
    cni::key<&Wanted::skip_default>(
        {.name = "skipDefault",
         .description = "in any entry: options 3 (routers) and 1 (subnet mask) are only requested "
                        "if the list has them"}));

constexpr auto kIpamKeys = cni::keys(
    cni::described<Given>({.name = "type"}),
    cni::key<&Given::conf, &Conf::socket_path>({.name = "daemonSocketPath",
                                                .description = "socket of the daemon",
                                                .default_text = "`/run/cni/dhcp.sock`"}),
    cni::list<kProvideKeys, &Given::provided>(
        {.name = "provide", .description = "options that are sent to the server"}),
    cni::list<kRequestKeys, &Given::wanted>(
        {.name = "request",
         .description = "options that the server is asked for. Of these the result has 3, 33 and "
                        "121 (routes), 6, 15 and 119 (DNS); 26 is set as the interface's MTU"}),
    cni::key<&Given::conf, &Conf::priority>({.name = "priority",
                                             .description = "metric of all routes of the result",
                                             .default_text = "0 (the kernel's default)",
                                             .maximum = UINT32_MAX}),
    cni::key<&Given::conf, &Conf::timeout>(
        {.name = "timeout",
         .description = "how many seconds ADD waits for a lease; below what the runtime gives it",
         .default_text = "60",
         .minimum = 1,
         .maximum = 3600}),
    cni::key<&Given::conf, &Conf::probe>(
        {.name = "probe",
         .description = "probes for a new address by ARP for 0.9 s, and declines one that another "
                        "node on the link has"}),
    cni::custom<read_dns>({.name = "dns",
                           .description = "whether the result has the DNS of the server; an object "
                                          "is passed over, as by the reference plugin",
                           .default_text = "true if `request` has option 6, 15 or 119",
                           .type = cni::Type::kBoolOrObject,
                           .open = true}));

constexpr auto kKeys = cni::keys(cni::part<kIpamKeys>({.name = "ipam", .required = true}));

// Leniently, as the reference: the value of a key may have a "=", and a piece without one is passed
// over.
std::optional<std::string> argument(std::string_view args, const std::string& name) {
  for (const auto piece : cni::split(args, ";")) {
    const auto equals = piece.find('=');
    if (equals != std::string_view::npos && piece.substr(0, equals) == name) {
      return std::string(piece.substr(equals + 1));
    }
  }
  return std::nullopt;
}

Options provided_options(const cni::Request& request, const std::vector<Provided>& entries) {
  Options out;
  for (const Provided& entry : entries) {
    std::string value = entry.value;
    if (!entry.from_arg.empty()) {
      if (auto given = argument(request.args, entry.from_arg)) value = *std::move(given);
    }
    if (value.size() > kMaxValue) {
      throw cni::Error(cni::Code::kInvalidEnvironment,
                       cat("CNI_ARGS: ", entry.from_arg, ": expected at most 255 bytes"));
    }
    if (!value.empty()) out[entry.code] = Bytes(value.begin(), value.end());
  }
  return out;
}

bool gives_dns(std::uint8_t code) {
  constexpr std::uint8_t kDns[] = {option::kDnsServers, option::kDomainName, option::kDomainSearch};
  return std::ranges::find(kDns, code) != std::end(kDns);
}

Bytes wanted_options(const std::vector<Wanted>& entries) {
  Bytes out;
  const auto add = [&out](std::uint8_t code) {
    if (std::ranges::find(out, code) == out.end()) out.push_back(code);
  };
  bool skip_default = false;
  for (const Wanted& entry : entries) {
    if (entry.code) add(*entry.code);
    skip_default = skip_default || entry.skip_default;
  }
  if (!skip_default) {
    add(option::kRouters);
    add(option::kSubnetMask);
  }
  if (!out.empty()) return out;
  return {option::kSubnetMask, option::kRouters, option::kDomainName, option::kDnsServers};
}

}  // namespace

constinit const cni::Manual kManual{
    .purpose = "is an IPAM plugin: leases addresses from a DHCP server, by way of its daemon",
    .keys = kKeys,
    .facts = kFacts};

Conf Conf::parse(const cni::Request& request) {
  const Reader root = request.reader();
  const Reader ipam = root["ipam"];
  if (!ipam.present()) ipam.refuse("IPAM config missing 'ipam' key");
  Given given;
  cni::read_keys(root, kKeys, given);
  Conf& conf = given.conf;
  if (conf.socket_path.empty()) conf.socket_path = names::kDhcpSocket;
  conf.provided = provided_options(request, given.provided);
  conf.wanted = wanted_options(given.wanted);
  conf.dns = given.dns.value_or(std::ranges::any_of(
      given.wanted, [](const Wanted& entry) { return entry.code && gives_dns(*entry.code); }));
  return conf;
}

std::string socket_path_of(const cni::Request& request) {
  std::string out;
  try {
    request.reader()["ipam"].into("daemonSocketPath", out);
  } catch (const cni::Error& e) {
    cni::note(cat("dhcp: ", e.what(), "; the default ", names::kDhcpSocket, " is used"));
  }
  return out.empty() ? names::kDhcpSocket : out;
}

Bytes client_id_of(const cni::Request& request) {
  constexpr std::size_t kMax = 254;
  const std::string text =
      cat(request.container_id, "/", request.network, "/", request.ifname).substr(0, kMax);
  Bytes out{0};
  out.insert(out.end(), text.begin(), text.end());
  return out;
}

}  // namespace dhcp
