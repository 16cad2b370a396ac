#pragma once

#include <string>

#include "libcni/plugin/request.h"
#include "plugins/devices/ledger/ledger.h"

/// Holders of devices: written before the first delegate takes something of the device, removed
/// when the last one has given it back.
namespace devices {

/// Writes the attachment of the request as the holder of the entry's device, with the interface and
/// the start of `holder`, and the entry's pod, whose UID the ledger may not have. A holder whose
/// namespace does not exist any more, one of an earlier sandbox of the pod, and one of the same
/// attachment whose ADD was interrupted, is detached first. Returns the entry with its holder.
/// \throws cni::Error where somebody else has the device, or it is another pod's by now.
Entry hold(const cni::Request& request, const Ledger& ledger, const Entry& entry, Holder holder);

/// Writes what ADD returned.
void finish(const Ledger& ledger, const Entry& held, const std::string& result);

/// DEL of the delegates, and then removes the holder. Nothing if it is another's by now.
void let_go(const cni::Request& request, const Ledger& ledger, const Entry& held);

}  // namespace devices
