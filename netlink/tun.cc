#include "netlink/tun.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "netlink/types/error.h"

namespace netlink {

namespace {

constexpr const char* kDevice = "/dev/net/tun";
constexpr const char* kLabel = "/proc/thread-self/attr/current";

// A child's answer: the step that failed, and its errno. An error of 0 is success.
struct Answer {
  bool is_label = false;
  int error = 0;
};

std::string creation(const NewTap& spec) { return cat("create tap '", spec.name, "'"); }

Answer set_name_and_flags(int tun, ifreq& request) {
  return {.error = ::ioctl(tun, TUNSETIFF, &request) == 0 ? 0 : errno};
}

// System calls only: the process may have had other threads.
Answer labelled(int tun, ifreq& request, std::string_view context) {
  const int label = ::open(kLabel, O_WRONLY | O_CLOEXEC);
  const bool is_set =
      label >= 0 && ::write(label, context.data(), context.size()) == std::ssize(context);
  if (!is_set) return {.is_label = true, .error = errno};
  return set_name_and_flags(tun, request);
}

// The label of a tap's sockets is that of the task which creates it, not its "sockcreate"
// (selinux_tun_dev_create() in security/selinux/hooks.c). Only a process with one thread and a
// memory of its own may take any other label (selinux_setprocattr()), and it may not get back: a
// child does.
Answer create_in_child(int tun, ifreq& request, std::string_view context) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {.error = errno};
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return {.error = errno};
  if (child == 0) {
    const Answer answer = labelled(tun, request, context);
    ::_exit(::write(writer.get(), &answer, sizeof answer) == sizeof answer ? 0 : 1);
  }
  writer.reset();
  Answer answer{.error = ECHILD};  // where the child died
  ssize_t got = 0;
  do {
    got = ::read(reader.get(), &answer, sizeof answer);
  } while (got < 0 && errno == EINTR);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return answer;
}

template <class Value>
void control(int tun, unsigned long operation, Value value, const std::string& what) {
  if (::ioctl(tun, operation, value) != 0) throw Error(what, errno);
}

}  // namespace

std::uint16_t tap_flags(bool multi_queue) {
  constexpr unsigned kAlways = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_TUN_EXCL;
  return static_cast<std::uint16_t>(kAlways | (multi_queue ? IFF_MULTI_QUEUE : 0));
}

TunFile::TunFile(const NetNs& where) {
  const NetNs::Entered entered(where);
  fd_ = Fd(::open(kDevice, O_RDWR | O_CLOEXEC));
  if (!fd_) throw Error(cat("open '", kDevice, "'"), errno);
  unsigned features = 0;
  control(fd_.get(), TUNGETFEATURES, &features, cat("ask '", kDevice, "' for its features"));
  constexpr unsigned kNeeded = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_MULTI_QUEUE;
  if ((features & kNeeded) != kNeeded) {
    throw Error(cat("ask '", kDevice, "' for taps with virtio-net header"), EOPNOTSUPP);
  }
}

void TunFile::create(const NewTap& spec) {
  ifreq request{};
  if (spec.name.empty() || spec.name.size() >= sizeof request.ifr_name) {
    throw Error(creation(spec), EINVAL);
  }
  std::memcpy(request.ifr_name, spec.name.data(), spec.name.size());
  request.ifr_flags = static_cast<short>(tap_flags(spec.multi_queue));
  const Answer answer = spec.selinux_context.empty()
                            ? set_name_and_flags(fd_.get(), request)
                            : create_in_child(fd_.get(), request, spec.selinux_context);
  if (answer.is_label) {
    throw Error(
        cat("failed set socket label: write '", spec.selinux_context, "' to '", kLabel, "'"),
        answer.error);
  }
  if (answer.error != 0) throw Error(creation(spec), answer.error);
  if (spec.owner)
    control(fd_.get(), TUNSETOWNER, *spec.owner, cat("set owner of '", spec.name, "'"));
  if (spec.group)
    control(fd_.get(), TUNSETGROUP, *spec.group, cat("set group of '", spec.name, "'"));
  // Last: until now it is gone with this descriptor.
  control(fd_.get(), TUNSETPERSIST, 1, cat("make '", spec.name, "' persistent"));
  fd_.reset();  // a program can attach from now on
}

bool lists_selinux(std::string_view filesystems) {
  return filesystems.find("\tselinuxfs\n") != std::string_view::npos;
}

bool has_selinux() { return lists_selinux(read_file("/proc/filesystems").value_or("")); }

}  // namespace netlink
