#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libcni/common/dir.h"
#include "libcni/common/lock.h"
#include "plugins/leases/host.h"
#include "plugins/leases/index.h"

namespace leases {

using cni::Dir;
using cni::File;
using cni::kLockDeadline;

/// The reservations of one network: `<dataDir>/<network>/`, in the reference's format.
/// Whatever changes something needs lock() before.
class Store {
 public:
  /// Empty: the directory does not exist.
  static std::optional<Store> open(const std::string& data_dir, const std::string& network,
                                   Host host);
  static Store create(const std::string& data_dir, const std::string& network, Host host);

  /// Held until unlock() or the end of the store. \throws as take_lock().
  void lock(std::chrono::milliseconds deadline = kLockDeadline);
  void unlock() { lock_.reset(); }

  const std::string& network() const { return network_; }
  const Host& host() const { return host_; }
  const Dir& dir() const { return dir_; }
  OwnerIndex index() const { return {dir_, host_}; }

  /// The reserved addresses, sorted; no reservation is read.
  std::vector<Ip> used() const;
  bool has(const Ip& ip) const { return dir_.has(ip.str()); }
  /// The reservation of ip as it is on disk.
  std::optional<File> read(const Ip& ip) const { return dir_.read(ip.str()); }

  /// Reserves ip for owner, all of it or nothing. False: it is taken.
  bool reserve(const Ip& ip, const Owner& owner) const;
  /// Removes the reservation of ip, whoever has it, and then these entries of the index.
  void discard(const Ip& ip, std::span<const OwnerIndex::Entry> entries) const;

  /// The addresses that owner has, from the index, or where that knows nothing from reading all
  /// reservations (the reference notes none). hints are looked at first.
  std::vector<Ip> owned(const Owner& owner, const std::vector<Ip>& hints) const;
  /// Frees all that owner has. hints are addresses that it may have besides. complete_index is
  /// called where the index does not know owner; all reservations are read if it gives false.
  /// False: owner had none.
  bool release(
      const Owner& owner, const std::vector<Ip>& hints,
      const std::function<bool()>& complete_index = [] { return false; }) const;
  /// Removes the half-written files that a kill can leave.
  void remove_left_overs() const;
  /// Frees those of ips that owner has.
  void release_only(const Owner& owner, const std::vector<Ip>& ips) const;

  /// The last address that was reserved in a set.
  std::optional<Ip> last_reserved(std::size_t set) const;
  /// A failure is noted on stderr: it costs the order of addresses, not an address.
  void keep_last_reserved(std::size_t set, const Ip& ip) const noexcept;

 private:
  Store(Dir dir, std::string network, Host host)
      : dir_(std::move(dir)), network_(std::move(network)), host_(std::move(host)) {}
  bool holds(const Ip& ip, const Owner& owner) const;
  bool release_indexed(const Owner& owner) const;
  /// Removes the notes of an address that is free now. Who found its record torn, by a power loss,
  /// noted it by what was left of the ID.
  void forget(const Ip& ip) const;
  bool release_unindexed(const Owner& owner) const;
  std::vector<Ip> scan(const Owner& owner) const;

  Dir dir_;
  std::string network_;
  Host host_;
  netlink::Fd lock_;
};

}  // namespace leases
