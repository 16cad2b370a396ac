#pragma once

#include <optional>
#include <vector>

#include "plugins/host-local/heal.h"

namespace host_local {

/// Keeps the index complete over one verb, so that reservations of the reference are read once and
/// not by every ADD and every DEL of somebody unknown. The store must be locked while it lives.
/// What fails in it costs time, never the verb; it is noted on stderr.
class Census {
 public:
  explicit Census(const Store& store);
  Census(const Census&) = delete;
  Census& operator=(const Census&) = delete;
  /// Marks the index, if it is complete; a kill before that leaves it to be looked through again.
  ~Census();

  /// What owner has and the index does not know; nothing where that is of before the last boot.
  /// Changes nothing.
  std::vector<Ip> held_by(const Owner& owner) noexcept;
  /// Notes the reservations that are not in the index: those that survey() takes for dead as of an
  /// earlier boot, so that DEL finds them and they stay reclaimable, the others as of this boot or,
  /// where they may be another machine's or an operator's, of none.
  /// False: not all could be read and noted.
  bool complete() noexcept;

 private:
  void look();
  /// False: the file system has no symbolic links to note them by.
  bool note(const std::vector<Found>& reservations, std::string_view boot) const;

  const Store& store_;
  bool is_complete_ = false;
  std::optional<Survey> survey_;  ///< of all reservations, where anybody else has been here
};

}  // namespace host_local
