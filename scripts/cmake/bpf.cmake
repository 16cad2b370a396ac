# CNI_BPF: programs that run in the kernel. They are compiled by clang at build time and embedded;
# libbpf loads them. Without, what needs them says so when it is asked for.
find_program(BPF_CLANG NAMES clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14)
find_program(BPF_STRIP NAMES llvm-strip llvm-strip-19 llvm-strip-18 llvm-strip-17 llvm-strip-16
             llvm-strip-15 llvm-strip-14)
pkg_check_modules(LIBBPF QUIET libbpf>=1.0)

set(_bpf_missing)
if(NOT BPF_CLANG)
  list(APPEND _bpf_missing clang)
endif()
if(NOT LIBBPF_FOUND)
  list(APPEND _bpf_missing libbpf)
endif()
# Not an option(): its cached OFF would outlast the installation of clang.
set(CNI_BPF "" CACHE STRING "programs in the kernel (eBPF): ON, OFF; empty: ON where clang and libbpf are installed")
list(JOIN _bpf_missing " and " _bpf_missing)
if(CNI_BPF AND _bpf_missing)
  message(FATAL_ERROR "CNI_BPF needs ${_bpf_missing}")
elseif(_bpf_missing)
  message(STATUS "Without eBPF, as there is no ${_bpf_missing}: bandwidth has no egressMode edt, and cnitool probe no reasons of the kernel (scripts/install-deps bpf)")
  set(CNI_BPF OFF)
elseif(CNI_BPF STREQUAL "")
  set(CNI_BPF ON)
endif()

# LIBBPF_LINKED: libbpf and what it needs.
set(LIBBPF_LINKED)
if(CNI_BPF)
  cni_libraries(LIBBPF_LINKED "${CNI_STATIC_LIBC}" "${LIBBPF_LIBRARY_DIRS}" ${LIBBPF_STATIC_LIBRARIES})
endif()

# bpf_object(TARGET SOURCE NAMESPACE): compiles SOURCE, a .bpf.c in the current folder, into the
# object library TARGET, which defines NAMESPACE::object() with the bytes of the object file; no
# bytes without CNI_BPF.
function(bpf_object target source namespace)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${target}.bpf.o)
  set(embedded ${CMAKE_CURRENT_BINARY_DIR}/${target}.cc)
  set(embed ${PROJECT_SOURCE_DIR}/scripts/cmake/embed.cmake)
  if(CNI_BPF)
    set(strip COMMAND ${BPF_STRIP} -g ${object})  # keeps .BTF
    if(NOT BPF_STRIP)
      set(strip)
    endif()
    # -g for the types of maps; the path is that of asm/types.h, which Debian has per architecture.
    add_custom_command(OUTPUT ${object}
      COMMAND ${BPF_CLANG} -target bpf -mcpu=v2 -O2 -g -Wall -Wextra $<$<BOOL:${CNI_WERROR}>:-Werror>
              -ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -I${PROJECT_SOURCE_DIR}
              -idirafter ${CMAKE_SYSROOT}/usr/include/${CMAKE_LIBRARY_ARCHITECTURE}
              -MD -MF ${object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      ${strip}
      DEPENDS ${source} DEPFILE ${object}.d VERBATIM COMMAND_EXPAND_LISTS)
  else()
    set(object)
  endif()
  add_custom_command(OUTPUT ${embedded}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${object} -DOUTPUT=${embedded} -DNAMESPACE=${namespace}
            -P ${embed}
    DEPENDS ${object} ${embed} VERBATIM)
  add_library(${target} OBJECT ${embedded})
  target_link_libraries(${target} PRIVATE cni_flags)
endfunction()
