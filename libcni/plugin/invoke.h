#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/plugin/request.h"

namespace cni {

/// Whether a plugin can have that name: not empty, "." or "..", without path separator and NUL
/// (CVE-2021-20206).
bool is_plugin_name(std::string_view type);

/// The file of a plugin: the first directory of path that holds a regular file of that name. key:
/// where the config says type.
/// \throws Error(kInvalidConfig) for no plugin name, and where no directory has it: the details
/// name the key and what is there; netlink::Error where it cannot be told.
std::string find_plugin(std::string_view type, const std::vector<std::string>& path,
                        std::string_view key = "type");

/// The outputs and the exit status of a plugin process.
struct Outcome {
  int wait_status = 0;  ///< as from waitpid(2)
  std::string out, err;
  bool ok() const { return wait_status == 0; }
};

/// The deadline of a delegate. The kubelet gives a sandbox four minutes in all.
inline constexpr std::chrono::seconds kDelegateLimit{110};

/// The longest time there is: no limit.
inline constexpr std::chrono::seconds kNoLimit = std::chrono::seconds::max();

/// A program to execute: a file, its arguments, and exactly this environment.
struct Executable {
  std::string file;
  std::vector<std::string> arguments = {};
  Env env = {};
  /// In a process group of its own, which is killed as a whole. A delegate
  /// stays in the group of its parent.
  bool own_group = false;
  /// A file descriptor that becomes readable when the program is to be stopped; -1 is none.
  int stop_fd = -1;
};

/// Runs a program with input on its stdin, and waits for it. A process that outlives limit is
/// killed. If this process dies, so does that one, so that nothing goes on to reserve addresses or
/// to install rules behind the back of the DEL that follows. SIGPIPE must be ignored. A file that
/// is still being written (ETXTBSY), as by an installer, is waited for some seconds.
/// \throws netlink::Error where it cannot be started, Error(kTryAgainLater) when the limit is up or
/// it was stopped.
Outcome execute(const Executable& program, std::string_view input,
                std::chrono::seconds limit = kDelegateLimit);

/// The directories in text, which ':' separates, as in CNI_PATH; empty ones are left out.
std::vector<std::string> split_path(std::string_view text);

/// The error object that a plugin printed; nothing where it printed none.
std::optional<Error> error_object_of(const Outcome& outcome);
/// The error of a plugin that failed: its own error object if it printed one, else its exit status.
Error error_from(std::string_view type, const Outcome& outcome);

}  // namespace cni
