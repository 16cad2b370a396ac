#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "libcni/common/file_users.h"
#include "libcni/runtime/cache.h"
#include "netlink/types/fd.h"

namespace cni {

/// Keeps apart what a runtime must not do at once (spec 1.1, section 2): two operations on one
/// container, and garbage collection beside any ADD, DEL or CHECK of the network. Operations on
/// different containers run in parallel. For processes and threads alike, over the file `lock` in
/// the cache's directory; a process that dies leaves no lock. The reference takes none.
class OperationLock {
 public:
  /// The deadline, and a descriptor that ends the wait when it becomes readable (-1: none).
  struct Wait {
    std::chrono::milliseconds limit{240'000};
    int stop_fd = -1;
  };

  /// For ADD, DEL and CHECK. \throws Error(kTryAgainLater) naming what is in the way when the limit
  /// is up; netlink::Error.
  static OperationLock of_attachment(const Cache& cache, const AttachmentKey& key,
                                     const Wait& wait);
  /// For GC. A waiting collection is not overtaken by new operations.
  static OperationLock of_network(const Cache& cache, const std::string& network, const Wait& wait);
  /// For the DELs of a collection, which has the network.
  static OperationLock of_container(const Cache& cache, const AttachmentKey& key, const Wait& wait);

  /// Whether an operation on the container is running. Takes no lock and makes no file. Empty:
  /// unknown, because this process may not read the file.
  static std::optional<bool> is_held(const Cache& cache, const std::string& container_id);

  /// The processes that collect the network: all its other operations wait. Takes no lock and makes
  /// no file. Empty: none, or unknown.
  static std::vector<FileUser> collectors(const Cache& cache, const std::string& network);

 private:
  explicit OperationLock(netlink::Fd file) : file_(std::move(file)) {}
  netlink::Fd file_;
};

}  // namespace cni
