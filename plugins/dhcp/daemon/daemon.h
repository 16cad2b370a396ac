#pragma once

#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libcni/daemon/folder_watch.h"
#include "libcni/plugin/request.h"
#include "plugins/dhcp/daemon/attachment.h"
#include "plugins/dhcp/daemon/flags.h"
#include "plugins/dhcp/daemon/server.h"

namespace dhcp {

/// All attachments, what plugins ask of them, and their state files.
class Daemon {
 public:
  /// Takes over the leases of the state files. \throws netlink::Error; cni::Error.
  Daemon(const Flags& flags, Listening listening);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  /// Until SIGINT or SIGTERM. Leases stay: another process takes them over. \throws cni::Error,
  /// netlink::Error where its socket was removed and cannot be made again: nobody reaches it.
  void run();

 private:
  struct Entry {
    std::unique_ptr<Attachment> attachment;
    std::vector<Asked> waiting = {};  ///< for the end of ADD
    Time deadline = kNever;           ///< of ADD
    Attachment::Fds watched = {-1, -1, -1};
  };

  void on_call(const Asked& asked);
  void on_close(std::uint64_t connection);
  void allocate(const Asked& asked);
  void release(const Asked& asked);
  void check(const Asked& asked);
  void collect(const Asked& asked);
  void adopt(const cni::Request& request, const std::string& file);

  void serve(const std::string& file);
  void watch(const std::string& file, Entry& entry);
  /// Ends an ADD. why is no part of the entry, which it ends.
  void fail(const std::string& file, const std::string& why);
  /// Releases its lease, and forgets it.
  void end(const std::string& file);
  void forget(Entry& entry) noexcept;
  void take_over();
  void look_around();
  void keep_folder();
  void save(const State& state);
  void watch_directory_of(const std::string& netns);

  const Flags& flags_;
  EventLoop loop_;
  StateDir states_;
  std::map<std::string, Entry> entries_;  ///< by AttachmentKey::tag()
  cni::FolderWatch removals_;
  std::exception_ptr failure_;  ///< the reason to end
  Server server_;
};

}  // namespace dhcp
