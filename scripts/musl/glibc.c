// What archives that were compiled for glibc (GCC's unwinder; libbpf, libelf and zlib of the host) call
// and musl does not have. Types and structs are the same in both: musl keeps to glibc's ABI where it can,
// so that such objects link.
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Copies that end the process where the target is too small: _FORTIFY_SOURCE, as the Linux Standard
// Base specifies them.

static void fits(int does) {
  if (!does) abort();
}

void* __memcpy_chk(void* to, const void* from, size_t size, size_t room) {
  fits(size <= room);
  return memcpy(to, from, size);
}

char* __strcpy_chk(char* to, const char* from, size_t room) {
  fits(strlen(from) < room);
  return strcpy(to, from);
}

char* __strcat_chk(char* to, const char* from, size_t room) {
  fits(strlen(to) + strlen(from) < room);
  return strcat(to, from);
}

char* __realpath_chk(const char* path, char* resolved, size_t room) {
  fits(room >= PATH_MAX);
  return realpath(path, resolved);
}

int __vsnprintf_chk(char* to, size_t size, int flag, size_t room, const char* format, va_list values) {
  (void)flag;
  fits(size <= room);
  return vsnprintf(to, size, format, values);
}

int __snprintf_chk(char* to, size_t size, int flag, size_t room, const char* format, ...) {
  va_list values;
  va_start(values, format);
  const int length = __vsnprintf_chk(to, size, flag, room, format, values);
  va_end(values);
  return length;
}

int __sprintf_chk(char* to, int flag, size_t room, const char* format, ...) {
  (void)flag;
  va_list values;
  va_start(values, format);
  const int length = vsnprintf(to, room, format, values);
  va_end(values);
  fits(length >= 0 && (size_t)length < room);
  return length;
}

int __vfprintf_chk(FILE* to, int flag, const char* format, va_list values) {
  (void)flag;
  return vfprintf(to, format, values);
}

int __vdprintf_chk(int to, int flag, const char* format, va_list values) {
  (void)flag;
  return vdprintf(to, format, values);
}

// Functions and names of glibc's own.

void* rawmemchr(const void* text, int wanted) {
  const unsigned char* at = text;
  while (*at != (unsigned char)wanted) ++at;
  return (void*)at;
}

int fcntl64(int fd, int command, ...) {
  va_list values;
  va_start(values, command);
  void* value = va_arg(values, void*);
  va_end(values);
  return fcntl(fd, command, value);
}

// What GCC's unwinder asks for a function's tables (glibc's manual, "Dynamic Linker Introspection";
// struct dl_find_object of <dlfcn.h>). A static executable is the only object there is.
struct dl_find_object {
  unsigned long long flags;
  void *map_start, *map_end;
  struct link_map* link_map;
  void* eh_frame;
  unsigned long long reserved[7];
};

struct search {
  const char* address;
  struct dl_find_object* object;
  int mapped;
};

static int look_in(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  struct search* search = data;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* segment = &info->dlpi_phdr[i];
    char* start = (char*)info->dlpi_addr + segment->p_vaddr;
    char* end = start + segment->p_memsz;
    if (segment->p_type == PT_GNU_EH_FRAME) search->object->eh_frame = start;
    if (segment->p_type != PT_LOAD || search->address < start || search->address >= end) continue;
    search->object->map_start = start;
    search->object->map_end = end;
    search->mapped = 1;
  }
  return 0;
}

int _dl_find_object(void* address, struct dl_find_object* object) {
  memset(object, 0, sizeof *object);
  struct search search = {address, object, 0};
  dl_iterate_phdr(look_in, &search);
  return search.mapped && object->eh_frame ? 0 : -1;
}
