#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// The processes that have a file open, as far as this process may see them: root sees all of its
/// PID namespace.
namespace cni {

struct FileUser {
  std::string pid;
  std::string name;          ///< its comm: at most 15 characters, which it chooses
  std::string command_line;  ///< the arguments, each terminated by NUL

  bool has_argument(const std::string& argument) const;
  /// "process 812 (flock)", printable.
  std::string str() const;
};

/// The processes that have the socket with that inode open.
std::vector<FileUser> users_of_socket(std::uint64_t inode);

/// The processes that hold a lock of the file, by flock(2) or F_OFD_SETLK: the lock belongs to an
/// open file, which children inherit, so that the process that took it may have ended. byte: that
/// of one of its bytes alone.
std::vector<FileUser> lock_holders(int fd, std::optional<off_t> byte = {});

}  // namespace cni
