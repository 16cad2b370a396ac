// The functions of other libraries that libdbus refers to and a client never calls. The linker
// calls these instead (--wrap in scripts/cmake/dbus.cmake): libsystemd has no static archive, and
// the C library's look-ups of users and hosts would bring its loader of shared libraries with them
// into the executable.
#include <netdb.h>
#include <pwd.h>
#include <sys/types.h>

#include <cerrno>

extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names
int __wrap_sd_listen_fds(int unset_environment);
int __wrap_sd_is_socket(int fd, int family, int type, int listening);
int __wrap_getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                       addrinfo** result);
void __wrap_freeaddrinfo(addrinfo* list);
int __wrap_getnameinfo(const sockaddr* address, socklen_t length, char* host, socklen_t host_size,
                       char* service, socklen_t service_size, int flags);
int __wrap_getpwnam_r(const char* name, passwd* entry, char* buffer, size_t size, passwd** result);
int __wrap_getpwuid_r(uid_t uid, passwd* entry, char* buffer, size_t size, passwd** result);
int __wrap_getgrouplist(const char* user, gid_t group, gid_t* groups, int* count);

int __wrap_sd_listen_fds(int /*unset_environment*/) { return 0; }
int __wrap_sd_is_socket(int /*fd*/, int /*family*/, int /*type*/, int /*listening*/) { return 0; }
int __wrap_getaddrinfo(const char* /*node*/, const char* /*service*/, const addrinfo* /*hints*/,
                       addrinfo** /*result*/) {
  return EAI_FAIL;
}
void __wrap_freeaddrinfo(addrinfo* /*list*/) {}
int __wrap_getnameinfo(const sockaddr* /*address*/, socklen_t /*length*/, char* /*host*/,
                       socklen_t /*host_size*/, char* /*service*/, socklen_t /*service_size*/,
                       int /*flags*/) {
  return EAI_FAIL;
}
int __wrap_getpwnam_r(const char* /*name*/, passwd* /*entry*/, char* /*buffer*/, size_t /*size*/,
                      passwd** result) {
  *result = nullptr;
  return ENOENT;
}
int __wrap_getpwuid_r(uid_t /*uid*/, passwd* /*entry*/, char* /*buffer*/, size_t /*size*/,
                      passwd** result) {
  *result = nullptr;
  return ENOENT;
}
int __wrap_getgrouplist(const char* /*user*/, gid_t /*group*/, gid_t* /*groups*/, int* count) {
  *count = 0;
  return 0;
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)

}  // extern "C"
