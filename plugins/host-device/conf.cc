#include "plugins/host-device/conf.h"

#include <algorithm>
#include <string_view>

#include "plugins/common/link/ipam_keys.h"
#include "plugins/common/link/link_keys.h"
#include "plugins/host-device/facts.h"

namespace host_device {

namespace {

using cni::cat;
using cni::Reader;

constexpr std::string_view kDevices = "/sys/devices/";

// Whether a component of the path is "..".
bool goes_up(const std::string& path) {
  return cat("/", path, "/").find("/../") != std::string::npos;
}

bool is_text(const std::string& text) {
  return text.find_first_of(std::string_view("\n\0", 2)) == std::string::npos;
}

bool is_kernel_path(const std::string& path) {
  return path.starts_with(kDevices) && is_text(path) && !goes_up(path);
}

bool is_absolute(const std::string& path) {
  return path.starts_with('/') && !path.ends_with('/') && is_text(path) && !goes_up(path);
}

// A name in /sys/bus/*/devices. Multus gives auxiliary devices as pciBusID, too.
bool is_device_id(const std::string& id) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !id.empty() && is_allowed(id[0]) && std::ranges::all_of(id, [&](char c) {
    return is_allowed(c) || c == '_' || c == '.' || c == ':' || c == '-';
  });
}

constexpr const char* kDeviceIdPattern = "^[A-Za-z0-9][A-Za-z0-9_.:-]*$";
constexpr const char* kDeviceId = "the name of a device in /sys/bus, for example 0000:03:00.1";

void read_hwaddr(const Reader& place, Conf& conf) {
  const std::string text = place.as_string();
  if (text.empty()) return;
  conf.mac = netlink::Mac::parse(text);
  if (conf.mac && !conf.mac->is_zero() && !conf.mac->is_multicast()) return;
  place.refuse(cat("failed to find host device: failed to parse MAC address \"", text,
                   "\": address ", text, ": invalid MAC address"),
               cat("expected ", cni::kMacForm));
}

// An alternative name can be longer than a name: ALTIFNAMSIZ of linux/if.h.
bool is_device_name(const std::string& text) {
  return !text.empty() && text.size() < 128 && text != "." && text != ".." &&
         text.find_first_of(std::string_view("/:% \t\n\v\f\r\0", 10)) == std::string::npos;
}
constexpr const char* kDeviceName =
    "a name or alternative name of a link: 1 to 127 bytes without slash, colon, percent sign and "
    "white space";

constexpr const char* kKernelPath = "a path below /sys/devices/, without ..";
constexpr const char* kInfoFile = "an absolute path of a file, without ..";

constexpr auto kRuntimeKeys = cni::keys(
    cni::text<&Conf::device_id>(
        {.name = "deviceID",
         .description = "PCI address or name of an auxiliary device; overrides `pciBusID`",
         .pattern = kDeviceIdPattern,
         .fits = is_device_id,
         .expected = kDeviceId,
         .or_empty = true}),
    cni::text<&Conf::device_info>(
        {.name = "CNIDeviceInfoFile",
         .description = "path of the device-info file, which gets the PCI address of the device",
         .pattern = "^/(?!(.*/)?\\.\\.(/|$))[^\\n\\x00]*[^/\\n\\x00]$",
         .fits = is_absolute,
         .expected = kInfoFile,
         .or_empty = true}));

constexpr auto kKeys = cni::keys(
    cni::text<&Conf::device>(
        {.name = "device",
         .description = "name or alternative name of the device. Precedes the other selectors; "
                        "selects a device in use, too",
         .pattern = "^[^/:% \\t\\n\\v\\f\\r\\x00]{1,127}$",
         .fits = is_device_name,
         .expected = kDeviceName,
         .or_empty = true}),
    cni::custom<read_hwaddr>(
        {.name = "hwaddr",
         .description = "MAC address of the device; hardware precedes virtual links",
         .type = cni::Type::kMac,
         .or_empty = true}),
    cni::text<&Conf::kernel_path>(
        {.name = "kernelpath",
         .description = "directory of the device below `/sys/devices/`; the first link in its "
                        "`net` is taken",
         .pattern = "^/sys/devices/(?!(.*/)?\\.\\.(/|$))[^\\n\\x00]*$",
         .fits = is_kernel_path,
         .expected = kKernelPath,
         .or_empty = true}),
    cni::text<&Conf::pci>(
        {.name = "pciBusID",
         .description =
             "PCI address; the first link in `net` of the device, or of its virtio device",
         .pattern = kDeviceIdPattern,
         .fits = is_device_id,
         .expected = kDeviceId,
         .or_empty = true}),
    cni::key<&Conf::dpdk>(
        {.name = "DPDKMode",
         .description = "moves no link and only reports the addresses. The driver of a PCI device "
                        "overrides it"}),
    cni::key<&Conf::enable_dad>(
        {.name = "enabledad",
         .description =
             "enables IPv6 duplicate address detection in the pod; ADD waits for its end. If "
             "false, an IPv6 address is usable at once"}),
    plugins::ipam_key<Conf>(), plugins::dns_key<Conf>(plugins::kDnsOfConfig),
    plugins::dns_from_ipam_key<Conf>(), plugins::ignore_default_route_key<Conf>(),
    cni::part<kRuntimeKeys>({.name = "runtimeConfig", .open = true}));

}  // namespace

constinit const cni::Manual kManual{
    .purpose = "moves a network device of the node into the pod, and back",
    .keys = kKeys,
    .facts = kFacts};

Conf Conf::parse(const cni::Request& request) {
  Conf conf;
  const Reader root = request.reader();
  cni::read_keys(root, kKeys, conf);
  plugins::refuse_without_ipam(root, conf);
  return conf;
}

bool Conf::selects() const {
  return !device.empty() || mac || !kernel_path.empty() || !pci.empty() || !device_id.empty();
}

void Conf::require_selector() const {
  if (selects()) return;
  throw cni::Error(cni::Code::kInvalidConfig,
                   R"(specify either "device", "hwaddr", "kernelpath" or "pciBusID")",
                   "runtimeConfig.deviceID selects a device, too");
}

}  // namespace host_device
