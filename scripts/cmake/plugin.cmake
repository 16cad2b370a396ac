# cni_plugin(NAME [LINK libraries...]): the library plugin_NAME of all that is in plugins/NAME, which the
# unit tests link.
function(cni_plugin name)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/plugins/${name}/*.cc)
  string(REPLACE "-" "_" target plugin_${name})
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${sources})
  target_link_libraries(${target} PUBLIC libcni ${arg_LINK})
endfunction()

# cni_program(NAME SOURCE source PLUGINS names...): the multi-call binary of the plugins, a static-pie file
# that needs nothing of the host.
function(cni_program name)
  cmake_parse_arguments(arg "" "SOURCE" "PLUGINS" ${ARGN})
  add_executable(${name} ${arg_SOURCE})
  foreach(plugin IN LISTS arg_PLUGINS)
    string(REPLACE "-" "_" target plugin_${plugin})
    target_link_libraries(${name} PRIVATE ${target})
    # argv[0] selects the plugin.
    set(link ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${plugin})
    add_custom_command(TARGET ${name} POST_BUILD
                       COMMAND ${CMAKE_COMMAND} -E create_symlink ${name} ${link} VERBATIM)
    install(FILES ${link} DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/cni COMPONENT plugins)
  endforeach()
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/cni COMPONENT plugins)
  if(NOT CNI_SANITIZE)
    target_link_options(${name} PRIVATE $<$<CONFIG:Release>:-s> -static-pie)
  endif()
endfunction()
