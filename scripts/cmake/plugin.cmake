# cni_plugin(NAME [IPAM] [LINK libraries...] [CALLS plugins...]): the library plugin_NAME of all that is in plugins/NAME,
# which the unit tests link; and NAME is one of the plugins of patchbay. IPAM: it gives addresses. CALLS: plugins that it
# calls without a process, where the file beside it is of the same build.
function(cni_plugin name)
  cmake_parse_arguments(arg "IPAM" "" "LINK;CALLS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc
       ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*/*.cc)
  list(FILTER sources EXCLUDE REGEX "/${name}/agent/")  # a daemon, an executable of its own
  string(REPLACE "-" "_" target plugin_${name})
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${sources})
  target_link_libraries(${target} PUBLIC libcni plugin_names ${arg_LINK})
  set_property(GLOBAL APPEND PROPERTY CNI_PLUGINS ${name})
  if(arg_IPAM)
    set_property(GLOBAL APPEND_STRING PROPERTY CNI_IPAM_NAMES "\"${name}\", ")
  else()
    set_property(GLOBAL APPEND_STRING PROPERTY CNI_OTHER_NAMES "\"${name}\", ")
  endif()
  set_property(GLOBAL PROPERTY CNI_CALLS_${name} ${name} ${arg_CALLS})
endfunction()

function(cni_namespace_of plugin out)
  string(REPLACE "-" "_" space ${plugin})
  if(space STREQUAL "static")  # a keyword of C++
    set(space static_ipam)
  endif()
  set(${out} ${space} PARENT_SCOPE)
endfunction()

# The declarations and pointers of plugins, for the templates, in the variables of these names.
function(cni_list_of out_declarations out_pointers)
  set(declarations "")
  set(pointers "")
  foreach(plugin IN LISTS ARGN)
    cni_namespace_of(${plugin} space)
    string(APPEND declarations "namespace ${space} { extern const cni::Plugin kPlugin; }\n")
    string(APPEND pointers "&${space}::kPlugin, ")
  endforeach()
  set(${out_declarations} "${declarations}" PARENT_SCOPE)
  set(${out_pointers} "${pointers}" PARENT_SCOPE)
endfunction()

# The library plugin_facts, which has the facts of the plugins without their code.
function(cni_plugin_facts)
  get_property(plugins GLOBAL PROPERTY CNI_PLUGINS)
  foreach(plugin IN LISTS plugins)
    cni_namespace_of(${plugin} space)
    string(APPEND includes "#include \"plugins/${plugin}/facts.h\"\n")
    string(APPEND facts "{\"${plugin}\", ${space}::kFacts}, ")
  endforeach()
  configure_file(facts.cc.in facts.cc @ONLY)
  add_library(plugin_facts STATIC ${CMAKE_CURRENT_BINARY_DIR}/facts.cc)
  target_link_libraries(plugin_facts PUBLIC libcni)
endfunction()

function(cni_link name)
  # What the plugins share comes first, so that the templates of all lie next to it: each call maps less.
  target_link_libraries(
    ${name} PRIVATE -Wl,--whole-archive netlink_types netlink_route netlink_nf libcni plugins_state plugins_links
                    plugins_common -Wl,--no-whole-archive plugins_list ${ARGN})
  cni_form(${name})
endfunction()

# cni_programs(): plugins_list, the library of all plugins; an executable of each plugin, single_NAME; patchbay, the
# multi-call binary of all; and `cni_plugins`, the target of all these.
function(cni_programs)
  get_property(plugins GLOBAL PROPERTY CNI_PLUGINS)
  cni_list_of(declarations pointers ${plugins})
  configure_file(list.cc.in list.cc @ONLY)
  add_library(plugins_list STATIC EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/list.cc)
  set_target_properties(plugins_list PROPERTIES UNITY_BUILD_MODE GROUP)
  foreach(plugin IN LISTS plugins)
    string(REPLACE "-" "_" library plugin_${plugin})
    # A release has no unit tests: each library of its own would parse the same headers and make the same templates.
    if(CMAKE_UNITY_BUILD AND CMAKE_BUILD_TYPE STREQUAL "Release")
      get_target_property(sources ${library} SOURCES)
      target_sources(plugins_list PRIVATE ${sources})
      # No object has code of two plugins: an executable would link both.
      set_source_files_properties(${sources} PROPERTIES UNITY_GROUP ${plugin})
      get_target_property(library ${library} LINK_LIBRARIES)
    else()
      list(APPEND own ${library})
    endif()
    target_link_libraries(plugins_list PUBLIC ${library})
  endforeach()
  # What all of them say that they are of: a hash of what they are linked from.
  set(linked netlink_types netlink_route netlink_nf netlink_tc netlink_bpf netlink_dbus libcni plugins_state
             plugins_links plugins_common plugins_leases plugins_list ${own})
  set(note ${CMAKE_CURRENT_BINARY_DIR}/build_note.cc)
  set(script ${PROJECT_SOURCE_DIR}/scripts/cmake/build_note.cmake)
  list(TRANSFORM linked REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE files)
  add_custom_command(OUTPUT ${note} COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DNOTE=${note} -P ${script}
                     DEPENDS ${linked} ${script} VERBATIM)
  add_library(build_note OBJECT ${note})
  target_link_libraries(build_note PRIVATE libcni)
  get_property(ipam_names GLOBAL PROPERTY CNI_IPAM_NAMES)
  get_property(other_names GLOBAL PROPERTY CNI_OTHER_NAMES)
  foreach(plugin IN LISTS plugins)
    get_property(calls GLOBAL PROPERTY CNI_CALLS_${plugin})
    cni_list_of(declarations pointers ${calls})
    configure_file(single.cc.in single/${plugin}.cc @ONLY)
    list(APPEND programs single_${plugin})
    add_executable(single_${plugin} ${CMAKE_CURRENT_BINARY_DIR}/single/${plugin}.cc)
    set_target_properties(single_${plugin} PROPERTIES OUTPUT_NAME ${plugin})
    cni_link(single_${plugin} build_note)
  endforeach()
  add_executable(patchbay main.cc)
  cni_link(patchbay installer build_note)
  add_custom_target(cni_plugins DEPENDS ${programs} patchbay)
endfunction()
