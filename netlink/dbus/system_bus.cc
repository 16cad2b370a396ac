#include "netlink/dbus/system_bus.h"

#include <dbus/dbus.h>

#include <cerrno>
#include <utility>

#include "netlink/types/error.h"

namespace netlink::dbus {

namespace {

constexpr int kTimeout = 10'000;  // milliseconds

/// An error of libdbus.
struct BusError {
  DBusError error = DBUS_ERROR_INIT;
  BusError() = default;
  BusError(const BusError&) = delete;
  BusError& operator=(const BusError&) = delete;
  ~BusError() { dbus_error_free(&error); }

  bool is(const char* name) const { return dbus_error_has_name(&error, name) != 0; }
  bool is_set() const { return dbus_error_is_set(&error) != 0; }
  std::string text() const { return error.message == nullptr ? "" : error.message; }
};

struct Unref {
  void operator()(DBusMessage* message) const noexcept { dbus_message_unref(message); }
};
using Message = std::unique_ptr<DBusMessage, Unref>;

Message message_of(const Method& method) {
  Message out(dbus_message_new_method_call(method.destination.c_str(), method.path.c_str(),
                                           method.interface.c_str(), method.name.c_str()));
  bool ok = out != nullptr;
  for (const std::string& argument : method.arguments) {
    const char* const text = argument.c_str();
    ok = ok && dbus_message_append_args(out.get(), DBUS_TYPE_STRING, &text, DBUS_TYPE_INVALID) != 0;
  }
  if (!ok) throw Error(cat("call '", method.name, "' on the system bus"), ENOMEM);
  dbus_message_set_auto_start(out.get(), FALSE);
  return out;
}

}  // namespace

bool is_built_in() noexcept { return true; }

void SystemBus::Close::operator()(DBusConnection* connection) const noexcept {
  dbus_connection_close(connection);
  dbus_connection_unref(connection);
}

std::optional<SystemBus> SystemBus::find() {
  BusError error;
  DBusConnection* const connection = dbus_bus_get_private(DBUS_BUS_SYSTEM, &error.error);
  if (connection != nullptr) {
    dbus_connection_set_exit_on_disconnect(connection, FALSE);
    return SystemBus(connection);
  }
  // A socket that nobody listens to is of a bus that has ended.
  for (const char* const gone :
       {DBUS_ERROR_FILE_NOT_FOUND, DBUS_ERROR_NO_SERVER, DBUS_ERROR_DISCONNECTED}) {
    if (error.is(gone)) return std::nullopt;
  }
  throw Error("connect to the system bus", error.is(DBUS_ERROR_TIMEOUT) ? ETIMEDOUT : EIO,
              error.text());
}

bool SystemBus::has_owner(const std::string& name) {
  BusError error;
  const bool owned = dbus_bus_name_has_owner(connection_.get(), name.c_str(), &error.error) != 0;
  if (error.is_set()) throw Error(cat("look up '", name, "' on the system bus"), EIO, error.text());
  return owned;
}

Answer SystemBus::call(const Method& method) {
  const Message request = message_of(method);
  BusError error;
  const Message reply(dbus_connection_send_with_reply_and_block(connection_.get(), request.get(),
                                                                kTimeout, &error.error));
  if (error.is(DBUS_ERROR_NO_REPLY) || error.is(DBUS_ERROR_TIMEOUT)) {
    throw Error(cat("call '", method.name, "' of '", method.destination, "'"), ETIMEDOUT,
                error.text());
  }
  if (error.is_set()) {
    return {.error = error.text().empty() ? std::string(error.error.name) : error.text()};
  }
  dbus_bool_t truth = FALSE;
  BusError other;  // an answer of another type
  dbus_message_get_args(reply.get(), &other.error, DBUS_TYPE_BOOLEAN, &truth, DBUS_TYPE_INVALID);
  return {.error = "", .truth = truth != FALSE};
}

}  // namespace netlink::dbus
