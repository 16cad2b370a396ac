# cni_flags: what every target of the project is compiled with.
add_library(cni_flags INTERFACE)
target_compile_features(cni_flags INTERFACE cxx_std_20)
target_include_directories(cni_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_definitions(cni_flags INTERFACE PATCHBAY_VERSION="${PROJECT_VERSION}")
target_compile_options(cni_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast
  -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-qual -Wundef $<$<BOOL:${CNI_WERROR}>:-Werror>
  -fstack-protector-strong -fvisibility=hidden -ffunction-sections -fdata-sections)
target_link_options(cni_flags INTERFACE -Wl,--gc-sections -Wl,-z,relro,-z,now,-z,noexecstack)
if(CNI_SANITIZE)
  string(REPLACE ";" "," _sanitize "${CNI_SANITIZE}")
  target_compile_options(cni_flags INTERFACE
    -fsanitize=${_sanitize} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # Checks before each use of a pointer are half of the sanitized code: the preset asan leaves them to the preset fuzz.
  if(CNI_NO_SANITIZE)
    target_compile_options(cni_flags INTERFACE -fno-sanitize=${CNI_NO_SANITIZE})
  endif()
  target_link_options(cni_flags INTERFACE -fsanitize=${_sanitize})
  find_program(LLD NAMES ld.lld)
  if(LLD)  # a quarter of the time, forty times
    target_link_options(cni_flags INTERFACE -fuse-ld=lld)
  endif()
else()
  # Calls of libc that write are bounded by what is known when they run, not when they are compiled.
  set(_fortify 2)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12)
    set(_fortify 3)
  endif()
  # A distribution's own flags decide, where they have it.
  if(NOT "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_RELEASE}" MATCHES "_FORTIFY_SOURCE")
    target_compile_options(cni_flags INTERFACE
      "$<$<CONFIG:Release>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=${_fortify}>")
  endif()
  if(NOT "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_RELEASE}" MATCHES "_GLIBCXX_ASSERTIONS")
    target_compile_definitions(cni_flags INTERFACE $<$<CONFIG:Release>:_GLIBCXX_ASSERTIONS>)
  endif()
  target_compile_options(cni_flags INTERFACE $<$<CONFIG:Release>:-fstack-clash-protection>)
endif()
if(CNI_FUZZ)
  target_compile_options(cni_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(CNI_COVERAGE)
  # One file per executable (%m), whatever namespaces a process is in; the counters are a part of it (%c),
  # so that those of a process that is killed or becomes another count too.
  set(_counted -fprofile-instr-generate=${PROJECT_BINARY_DIR}/profiles/%m%c.profraw)
  target_compile_options(cni_flags INTERFACE ${_counted} -fcoverage-mapping
                         "SHELL:-mllvm -runtime-counter-relocation")
  target_link_options(cni_flags INTERFACE ${_counted})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # The kernel's headers have arrays of no size at the end of a struct.
  target_compile_options(cni_flags INTERFACE -Wno-zero-length-array)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False with std::string where much is inlined: GCC's PR105651. clang-tidy, which does not know it,
  # reads the commands of a debug build.
  target_compile_options(cni_flags INTERFACE $<$<CONFIG:Release>:-Wno-restrict>)
endif()
if(CMAKE_INTERPROCEDURAL_OPTIMIZATION AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # The archives are also of use to a linker that does no link-time optimization: that of the tests,
  # and that of whoever has the library installed.
  target_compile_options(cni_flags INTERFACE -ffat-lto-objects)
endif()
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_RUNTIME_OUTPUT_DIRECTORY)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
