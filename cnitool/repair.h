#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cnitool/output.h"
#include "cnitool/settings.h"
#include "libcni/runtime/runtime.h"

namespace tool {

/// What repair() does with an attachment.
struct RepairAim {
  bool dry_run = false;
  std::optional<cni::Form> form = {};  ///< it gets this form; empty: it is repaired
  std::string conf_dir = {};           ///< of networks
};

/// The result of repair() for an attachment; repair.cc has a word for each, in this order.
enum class RepairResult {
  kOk,
  kRepaired,
  kBroken,  ///< and to be repaired, if that were not a dry run
  kFailed,
  kSkipped,
};

/// The report on one attachment.
struct Repaired {
  cni::AttachmentKey key;
  RepairResult outcome = RepairResult::kOk;
  cni::Runtime::RepairReport report = {};
  std::string why = {};  ///< skipped or failed without a plugin having been called
  std::string pod = {};  ///< pod_name_of()
  /// Of restore_leases(): its namespace cannot be seen from this mount namespace.
  bool is_unseen = false;
};

/// Runtime::repair() or migrate() of an attachment whose pod exists, Runtime::reclaim() of another,
/// unless it is to get another form.
Repaired repair_one(const cni::CachedAttachment& one, const cni::Runtime& runtime,
                    const RepairAim& aim);

/// Difference::what of a plugin that has no REPAIR, with the reason.
std::string foreign_text(const cni::Runtime::Difference& one);

/// Makes again what was removed from the node of every attachment in the cache whose pod is there:
/// bridges, ports, masquerading, hostPorts, limits, leases. Restores devices of the others. Of
/// those that the cache does not have, restores the leases, and says nothing where none is missing.
/// Prints for each what it came to. dry_run: it is only said. False where something could not be
/// repaired, or, with dry_run, has to be. With a form in aim the same, where false says that
/// something could not get it.
bool repair(const Selection& which, const RepairAim& aim, cni::RuntimeOptions options,
            const Output& output);

}  // namespace tool
