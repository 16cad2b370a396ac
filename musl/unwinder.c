// What GCC's unwinder (libgcc_eh.a of the host, compiled for glibc) calls and musl does not have. Types and
// structs are the same in both.
#include <link.h>
#include <string.h>

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
