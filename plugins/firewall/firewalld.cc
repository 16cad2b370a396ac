#include "plugins/firewall/firewalld.h"

#include "libcni/common/error.h"

namespace firewall::firewalld {

namespace {

using cni::cat;
using netlink::Ip;
using netlink::dbus::Answer;
using netlink::dbus::SystemBus;

// firewalld.dbus(5)
constexpr const char* kName = "org.fedoraproject.FirewallD1";
constexpr const char* kPath = "/org/fedoraproject/FirewallD1";
constexpr const char* kZone = "org.fedoraproject.FirewallD1.zone";

std::string source_of(const Ip& ip) { return cat(ip.str(), "/", ip.bits()); }

Answer call(SystemBus& bus, const char* method, const std::string& zone, const Ip& ip) {
  return bus.call({.destination = kName,
                   .path = kPath,
                   .interface = kZone,
                   .name = method,
                   .arguments = {zone, source_of(ip)}});
}

// Errors are one text, which begins with the code: "ZONE_CONFLICT: '10.1.0.2/32' already bound
// ...".
bool is(const Answer& answer, const char* code) {
  return answer.error.find(code) != std::string::npos;
}

// The message is the reference plugin's.
[[noreturn]] void fail(const char* what, const Ip& ip, const std::string& zone,
                       const Answer& answer) {
  throw cni::Error(cni::Code::kInternal, cat("failed to ", what, " the address ", source_of(ip),
                                             " ", zone, " zone: ", answer.error));
}

}  // namespace

std::optional<SystemBus> find() {
  auto bus = SystemBus::find();
  if (!bus || !bus->has_owner(kName)) return std::nullopt;
  return bus;
}

void add(SystemBus& bus, const std::string& zone, const Ip& ip, bool replace) {
  const Answer answer = call(bus, "addSource", zone, ip);
  if (answer.error.empty() || is(answer, "ZONE_ALREADY_SET") || is(answer, "ALREADY_ENABLED")) {
    return;
  }
  if (!replace || !is(answer, "ZONE_CONFLICT")) fail("add", ip, cat("to ", zone), answer);
  const Answer again = call(bus, "changeZoneOfSource", zone, ip);
  if (!again.error.empty()) fail("add", ip, cat("to ", zone), again);
}

bool remove(SystemBus& bus, const std::string& zone, const Ip& ip) {
  // Asked first, because firewalld logs each refusal as an error.
  const Answer seen = call(bus, "querySource", zone, ip);
  if (seen.error.empty() ? !seen.truth : is(seen, "INVALID_ZONE")) return false;
  const Answer answer = call(bus, "removeSource", zone, ip);
  if (answer.error.empty()) return true;
  if (is(answer, "UNKNOWN_SOURCE")) return false;
  fail("remove", ip, cat("from ", zone), answer);
}

bool has(SystemBus& bus, const std::string& zone, const Ip& ip) {
  const Answer answer = call(bus, "querySource", zone, ip);
  if (!answer.error.empty()) fail("find", ip, cat("in ", zone), answer);
  return answer.truth;
}

std::optional<std::string> unusable() {
  if (!netlink::dbus::is_built_in()) {
    return "this build is without D-Bus (CMake's option CNI_DBUS was off)";
  }
  if (find()) return std::nullopt;
  return cat("nobody owns ", kName, " on the system bus");
}

}  // namespace firewall::firewalld
