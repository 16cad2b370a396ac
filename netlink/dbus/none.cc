// Replaces system_bus.cc in a build without libdbus.
#include <cerrno>

#include "netlink/dbus/system_bus.h"
#include "netlink/types/error.h"

namespace netlink::dbus {

bool is_built_in() noexcept { return false; }

void SystemBus::Close::operator()(DBusConnection* /*connection*/) const noexcept {}

std::optional<SystemBus> SystemBus::find() { return std::nullopt; }

bool SystemBus::has_owner(const std::string& /*name*/) { return false; }

Answer SystemBus::call(const Method& method) {
  throw Error(cat("call '", method.name, "' on the system bus"), EOPNOTSUPP,
              "this build is without D-Bus: CMake's option CNI_DBUS was off");
}

}  // namespace netlink::dbus
