# Toolchain file of the preset musl. The first configuration builds the C++ library for musl.
set(_musl ${CMAKE_CURRENT_LIST_DIR}/../build/musl-toolchain)
if(NOT EXISTS ${_musl}/flags.cmake)
  message(STATUS "Building a C++ library for musl: some minutes, log in build/musl-toolchain.log")
  execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/toolchain ${_musl} COMMAND_ERROR_IS_FATAL ANY)
endif()
include(${_musl}/flags.cmake)
