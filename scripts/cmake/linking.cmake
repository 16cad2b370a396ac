# What is linked statically. Without shared libraries the plugins and cnitool need nothing of the node.
option(CNI_STATIC_LIBC "plugins, patchbay and cnitool are static: libc, libstdc++, libbpf, libdbus" ON)
option(CNI_STATIC_LIBSTDCXX "libstdc++ and libgcc are linked in, also where libc is not" ON)
option(CNI_STATIC_GRPC "patchbay-agent has libgrpc++ and protobuf linked in" ON)

# cni_libraries(OUT STATIC FOLDERS NAME...): of each library its archive, where STATIC and where there is one.
function(cni_libraries out static folders)
  set(found)
  foreach(name IN LISTS ARGN)
    find_library(CNI_ARCHIVE_${name} lib${name}.a HINTS ${folders})
    mark_as_advanced(CNI_ARCHIVE_${name})
    if(static AND CNI_ARCHIVE_${name})
      list(APPEND found ${CNI_ARCHIVE_${name}})
    else()
      list(APPEND found ${name})
    endif()
  endforeach()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# Whether a static-pie file may have its relocations as DT_RELR: the linker makes them, where it does not ignore the
# option with a warning, as for arm64; glibc 2.36 and later apply them.
include(CheckCXXSourceCompiles)
include(CheckLinkerFlag)
check_linker_flag(CXX -Wl,--fatal-warnings,-z,pack-relative-relocs CNI_LINKER_PACKS)
check_cxx_source_compiles("#include <features.h>
#if !__GLIBC_PREREQ(2, 36)
#error
#endif
int main() {}" CNI_LIBC_UNPACKS)

# cni_form(NAME [SHARED_LIBC]): how an executable is linked. SHARED_LIBC: with that of the node in any case.
function(cni_form name)
  if(CNI_SANITIZE)
    return()
  endif()
  set(form -pie)
  if(CNI_STATIC_LIBC AND NOT ARGN)
    set(form -static-pie)
    if(CNI_LINKER_PACKS AND CNI_LIBC_UNPACKS)  # 85 kB of them
      list(APPEND form -Wl,-z,pack-relative-relocs)
    endif()
  elseif(CNI_STATIC_LIBSTDCXX)
    list(APPEND form -static-libgcc -static-libstdc++)
  endif()
  target_link_options(${name} PRIVATE $<$<BOOL:${CNI_STRIP}>:-s> ${form} -Wl,--build-id)
endfunction()
