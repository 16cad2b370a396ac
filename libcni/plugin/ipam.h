#pragma once

#include <string>

#include "libcni/config/result.h"
#include "libcni/plugin/collect.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"

namespace cni {

/// The type of the IPAM plugin that the config names; empty where there is none. \throws
/// Error(kInvalidConfig), but for DEL, GC and RECLAIM: what ADD refuses has called no IPAM plugin.
std::string ipam_type(const Request& request);

/// The file of the IPAM plugin. \throws Error(kInvalidConfig) as find_plugin() and require_ipam().
std::string find_ipam(const Request& request, const std::string& type);

/// Runs ADD of the IPAM plugin with the same environment and stdin (spec 1.1, section 4). One that
/// answers with an error has made nothing: it is not called again, since DEL would release what an
/// earlier ADD of the attachment got. Where no answer comes, or one that cannot be read, DEL
/// releases a possible reservation. Callers make sure before that the pod has no such interface.
/// \throws Error: the delegate's own code and text.
Result ipam_add(const Request& request, const std::string& type);

/// DEL, CHECK or STATUS of the IPAM plugin; nothing where type is empty. DEL without a result
/// of ADD, and with a name that no plugin can have, succeeds without it. \throws Error: the
/// delegate's own code and text.
void ipam_forward(const Request& request, const std::string& type, Command command);

/// REPAIR of the IPAM plugin: its leases of the addresses in prevResult. Nothing where it does not
/// have the verb. False where leases are missing, since it was only to be looked at: CHECK fails.
/// \throws Error: the delegate's own code and text.
bool ipam_repair(const Request& request, const std::string& type, Repair& repair);

/// GC of the IPAM plugin; only to look, of one that announces that it can.
void ipam_collect(const Request& request, const std::string& type, Collect& collect);

/// Undo of ipam_add().
struct ReleaseAddresses {
  Request request;
  std::string type;
  void operator()() const { ipam_forward(request, type, Command::kDel); }
  std::string describe() const { return cat("release the addresses by IPAM plugin '", type, "'"); }
};

}  // namespace cni
