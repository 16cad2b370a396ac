#include "plugins/devices/agent/socket/listener.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/common/unix_socket.h"

namespace devices {

using cni::cat;
using netlink::Fd;

SocketListener::SocketListener(const std::string& path) : path_(path) {
  cni::socket_address(path);  // before a folder is made
  cni::Dir::create(path.substr(0, path.rfind('/')));
  const std::string aside = cat(path, ".", ::getpid());
  ::unlink(aside.c_str());  // of a process with this number that was killed
  fd_ = cni::listen_at(aside);
  inode_ = cni::inode_at(aside);
  if (::rename(aside.c_str(), path.c_str()) == 0) return;
  const int error = errno;
  ::unlink(aside.c_str());
  throw netlink::Error(cat("listen on '", path, "'"), error);
}

SocketListener::~SocketListener() {
  if (inode_ != 0 && cni::inode_at(path_) == inode_) ::unlink(path_.c_str());
}

bool SocketListener::is_lost() const { return cni::is_lost_socket(path_, inode_); }

Fd SocketListener::accept() const {
  Fd out(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (out && !cni::has_trusted_peer(out.get())) {
    out.reset();
    errno = EACCES;
  }
  return out;
}

}  // namespace devices
