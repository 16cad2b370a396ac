#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libcni/plugin/collect.h"
#include "netlink/dbus/system_bus.h"
#include "netlink/nf/socket.h"
#include "plugins/firewall/conf.h"

/// Adds and removes what an attachment has, in any backend.
namespace firewall {

/// The firewalls of the node, each opened when it is asked for.
class Firewalls {
 public:
  /// Null where the kernel has no nf_tables.
  netlink::nf::NfSocket* nf();
  /// Null where no firewalld runs.
  netlink::dbus::SystemBus* firewalld();

 private:
  template <class T>
  struct Lazy {
    bool asked = false;
    std::optional<T> value;
  };
  Lazy<netlink::nf::NfSocket> nf_;
  Lazy<netlink::dbus::SystemBus> bus_;
};

/// The configured backend, or the detected one. \throws cni::Error(kPluginUnavailable), which names
/// what is missing.
Backend choose_backend(Firewalls& node, const Conf& conf);

/// Adds all of it and removes what the attachment has in other backends. Repeating it adds what is
/// missing. \throws cni::Error, netlink::Error.
void set_up(Firewalls& node, const Conf& conf, const Attachment& attachment, Backend backend);

/// Removes what the attachment has, whichever backend has it, also what the reference plugin added.
/// Addresses that another attachment has by now are left alone. Without addresses it removes all
/// that names the attachment. \throws cni::Error, which lists what could not be removed.
void tear_down(Firewalls& node, const Conf& conf, const Attachment& attachment);

/// Removes what attachments have that are not valid. \throws as tear_down().
void remove_stale(Firewalls& node, const std::string& network, cni::Collect& collect);

/// The backend that has the attachment; nothing where none has.
std::optional<Backend> backend_of(Firewalls& node, const Attachment& attachment);

/// The first difference from what set_up() adds; nothing without one.
std::optional<std::string> missing(Firewalls& node, const Conf& conf, const Attachment& attachment,
                                   Backend backend);

/// Undo step of set_up().
struct TearDown {
  Conf conf;
  Attachment attachment;
  void operator()() const;
  std::string describe() const { return "remove the rules of the firewall"; }
};

}  // namespace firewall
