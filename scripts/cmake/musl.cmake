# patchbay with musl where libc is another one (CNI_MUSL): in a build of its own below this one, with a
# toolchain that scripts/musl/toolchain makes. The target patchbay is that build, and what it writes lies
# where it would without.
include(ExternalProject)

set(_musl ${CMAKE_BINARY_DIR}/musl)
file(GLOB _musl_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/scripts/musl/*)
add_custom_command(OUTPUT ${_musl}/toolchain.cmake
  COMMAND ${CMAKE_SOURCE_DIR}/scripts/musl/toolchain ${_musl}
  DEPENDS ${_musl_sources} COMMENT "Building a C++ library for musl (${_musl}.log)" VERBATIM)
add_custom_target(musl_toolchain DEPENDS ${_musl}/toolchain.cmake)

function(cni_program_with_musl name)
  cmake_parse_arguments(arg "" "" "PLUGINS" ${ARGN})
  set(benchmark)
  if(CNI_TESTS)
    set(benchmark bench_floor bench_empty_musl)
  endif()
  ExternalProject_Add(${name} DEPENDS musl_toolchain
    SOURCE_DIR ${CMAKE_SOURCE_DIR} PREFIX ${_musl}/project BINARY_DIR ${CMAKE_BINARY_DIR}/patchbay
    CMAKE_ARGS -DCMAKE_TOOLCHAIN_FILE=${_musl}/toolchain.cmake -DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE}
               -DCMAKE_CXX_FLAGS_RELEASE=${CMAKE_CXX_FLAGS_RELEASE}
               -DCMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER}
               -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
               -DCMAKE_RUNTIME_OUTPUT_DIRECTORY=${CMAKE_RUNTIME_OUTPUT_DIRECTORY} -DCNI_TESTS=OFF -DCNI_LIBRARIES=OFF
    BUILD_COMMAND ${CMAKE_COMMAND} --build . --target ${name} ${benchmark}
    BUILD_ALWAYS ON INSTALL_COMMAND "" USES_TERMINAL_BUILD ON)
  foreach(program ${name} ${arg_PLUGINS})
    install(PROGRAMS ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${program}
            DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/cni COMPONENT plugins)
  endforeach()
endfunction()
