#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

struct DBusConnection;

/// The system bus, over libdbus. Everything throws netlink::Error.
namespace netlink::dbus {

/// Whether this build can talk to it (CMake's option CNI_DBUS).
bool is_built_in() noexcept;

/// A method, all of whose arguments are strings.
struct Method {
  std::string destination, path, interface, name;
  std::vector<std::string> arguments = {};
};

/// A method's answer.
struct Answer {
  std::string error;   ///< the text of the error; empty: none
  bool truth = false;  ///< the answer, if it is a boolean
};

/// A connection of its own, closed at the end. An answer that takes longer than ten seconds is an
/// error (ETIMEDOUT).
class SystemBus {
 public:
  /// Empty: no bus runs, or this build has no D-Bus. DBUS_SYSTEM_BUS_ADDRESS names another bus;
  /// only addresses of sockets on this node (unix:) work.
  static std::optional<SystemBus> find();

  /// Whether somebody has the name; asking starts nobody.
  bool has_owner(const std::string& name);
  Answer call(const Method& method);

 private:
  struct Close {
    void operator()(DBusConnection* connection) const noexcept;
  };
  explicit SystemBus(DBusConnection* connection) : connection_(connection) {}

  std::unique_ptr<DBusConnection, Close> connection_;
};

}  // namespace netlink::dbus
