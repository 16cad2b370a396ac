#include "plugins/devices/agent/socket/listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/common/unix_socket.h"

namespace devices {

namespace {

using cni::cat;
using netlink::Fd;

ino_t inode_of(const std::string& path) {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

Fd listen_at(const std::string& path) {
  const auto address = cni::socket_address(path);
  Fd out(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // The mode of the file is that of the descriptor (unix_bind_bsd() in net/unix/af_unix.c): there
  // is no moment in which others can connect, and no umask, which all threads share.
  const bool listens =
      out && ::fchmod(out.get(), 0600) == 0 &&
      ::bind(out.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(out.get(), SOMAXCONN) == 0;
  if (!listens) throw netlink::Error(cat("listen on '", path, "'"), errno);
  return out;
}

}  // namespace

SocketListener::SocketListener(const std::string& path) : path_(path) {
  cni::socket_address(path);  // before a folder is made
  cni::Dir::create(path.substr(0, path.rfind('/')));
  const std::string aside = cat(path, ".", ::getpid());
  ::unlink(aside.c_str());  // of a process with this number that was killed
  fd_ = listen_at(aside);
  inode_ = inode_of(aside);
  if (::rename(aside.c_str(), path.c_str()) == 0) return;
  const int error = errno;
  ::unlink(aside.c_str());
  throw netlink::Error(cat("listen on '", path, "'"), error);
}

SocketListener::~SocketListener() {
  if (inode_ != 0 && inode_of(path_) == inode_) ::unlink(path_.c_str());
}

Fd SocketListener::accept() const {
  Fd out(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (out && !cni::has_trusted_peer(out.get())) {
    out.reset();
    errno = EACCES;
  }
  return out;
}

}  // namespace devices
