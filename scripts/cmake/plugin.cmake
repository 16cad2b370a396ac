# cni_plugin(NAME LINK libraries...): the executable of plugins/NAME, and the object library
# plugin_NAME of all but its main.cc, which the unit tests link.
# A plugin without dynamic needs (FULLY_STATIC) is one static-pie file; the others link libstdc++
# and libgcc statically and need only libc and libmnl of the host.
function(cni_plugin name)
  cmake_parse_arguments(arg "FULLY_STATIC" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/plugins/${name}/*.cc)
  list(REMOVE_ITEM sources ${CMAKE_SOURCE_DIR}/plugins/${name}/main.cc)
  string(REPLACE "-" "_" target plugin_${name})
  add_library(${target} STATIC ${sources})
  target_link_libraries(${target} PUBLIC libcni ${arg_LINK})
  add_executable(${name} ${CMAKE_SOURCE_DIR}/plugins/${name}/main.cc)
  target_link_libraries(${name} PRIVATE ${target})
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/cni COMPONENT plugins)
  if(CNI_SANITIZE)
    return()
  endif()
  if(arg_FULLY_STATIC)
    # libnl's unused name look-ups warn before the linker drops them.
    target_link_options(${name} PRIVATE -static-pie -Wl,--no-warnings)
  else()
    target_link_options(${name} PRIVATE -pie -static-libstdc++ -static-libgcc)
  endif()
endfunction()
