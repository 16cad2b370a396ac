#pragma once

#include <optional>
#include <vector>

#include "plugins/leases/stale.h"

namespace leases {

/// Completes the index of one verb, so that leases of the reference plugin are read once, not by
/// every ADD and DEL. Needs the store's lock while it exists. A failure costs time, never the verb,
/// and is logged to stderr.
class IndexUpdate {
 public:
  explicit IndexUpdate(const Store& store);
  IndexUpdate(const IndexUpdate&) = delete;
  IndexUpdate& operator=(const IndexUpdate&) = delete;
  /// Marks a complete index. A kill before that makes the next verb read all leases again.
  ~IndexUpdate();

  /// Leases of owner that the index does not have; none if they are from before the boot. Changes
  /// nothing.
  std::vector<Ip> held_by(const Owner& owner) noexcept;
  /// Adds index entries for leases without one. Stale leases, as survey() finds them, are entered
  /// as of an earlier boot, so that DEL finds them and they stay reclaimable. Others are entered as
  /// of this boot, or of none if they may be another machine's or an operator's. False: not all
  /// leases could be read and entered.
  bool complete() noexcept;

 private:
  void look();
  /// False: the file system has no symbolic links.
  bool note(const std::vector<Found>& reservations, std::string_view boot) const;

  const Store& store_;
  bool is_complete_ = false;
  std::optional<Survey> survey_;  ///< of all leases, if another program wrote some
};

}  // namespace leases
