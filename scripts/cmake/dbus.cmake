# CNI_DBUS: talking to firewalld over the system bus, by libdbus. Without, plugin firewall has no backend
# firewalld, and says so when it is asked for.
pkg_check_modules(DBUS QUIET dbus-1)
set(DBUS_ARCHIVE DBUS_ARCHIVE-NOTFOUND)
if(DBUS_FOUND)
  find_library(DBUS_ARCHIVE libdbus-1.a HINTS ${DBUS_LIBRARY_DIRS} /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} NO_CACHE)
endif()
# As CNI_BPF.
set(CNI_DBUS "" CACHE STRING "the system bus (D-Bus): ON, OFF; empty: ON where libdbus-1.a is installed")
if(CNI_DBUS AND NOT DBUS_ARCHIVE)
  message(FATAL_ERROR "CNI_DBUS needs libdbus-1.a and its headers")
elseif(NOT DBUS_ARCHIVE)
  message(STATUS "Without D-Bus, as there is no libdbus-1.a: firewall has no backend firewalld")
  set(CNI_DBUS OFF)
elseif(CNI_DBUS STREQUAL "")
  set(CNI_DBUS ON)
endif()

# What libdbus is linked with: its archive, and functions of netlink/dbus/wrapped.cc in place of others.
set(DBUS_LINKED)
if(CNI_DBUS)
  set(DBUS_LINKED ${DBUS_ARCHIVE})
  foreach(name sd_listen_fds sd_is_socket getaddrinfo freeaddrinfo getnameinfo getpwnam_r getpwuid_r getgrouplist)
    list(APPEND DBUS_LINKED -Wl,--wrap=${name})
  endforeach()
endif()
