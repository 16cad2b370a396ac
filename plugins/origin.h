#pragma once

/// For the main file of a static executable.

#include <features.h>

#ifdef __GLIBC__
// $ORIGIN in the paths of libraries, of which this static executable loads none. The function of
// the libc calls readlink(2) for /proc/self/exe, which takes a fifteenth of the time that a plugin
// needs to start (_dl_non_dynamic_init() in elf/dl-support.c).
extern "C" const char* _dl_get_origin() {    // NOLINT(bugprone-reserved-identifier)
  return reinterpret_cast<const char*>(-1);  // NOLINT(performance-no-int-to-ptr)
}
#endif
