# cni_plugin(NAME [LINK libraries...]): the library plugin_NAME of all that is in plugins/NAME, which the
# unit tests link; and NAME is one of the plugins of patchbay.
function(cni_plugin name)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc
       ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*/*.cc)
  list(FILTER sources EXCLUDE REGEX "/${name}/agent/")  # a daemon, an executable of its own
  string(REPLACE "-" "_" target plugin_${name})
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${sources})
  target_link_libraries(${target} PUBLIC libcni plugin_names ${arg_LINK})
  set_property(GLOBAL APPEND PROPERTY CNI_PLUGINS ${name})
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
if(CNI_LINKER_PACKS AND CNI_LIBC_UNPACKS)
  set(CNI_PACKS_RELOCATIONS ON)
endif()

# cni_program(NAME): plugins_list, the library of all plugins, and NAME, the multi-call binary of them, a
# static-pie file that needs nothing of the host.
function(cni_program name)
  get_property(plugins GLOBAL PROPERTY CNI_PLUGINS)
  foreach(plugin IN LISTS plugins)
    string(REPLACE "-" "_" space ${plugin})
    list(APPEND libraries plugin_${space})
    if(space STREQUAL "static")  # a keyword of C++
      set(space static_ipam)
    endif()
    string(APPEND declarations "namespace ${space} { extern const cni::Plugin kPlugin; }\n")
    string(APPEND pointers "&${space}::kPlugin, ")
    # argv[0] selects the plugin.
    set(link ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${plugin})
    list(APPEND links COMMAND ${CMAKE_COMMAND} -E create_symlink ${name} ${link})
  endforeach()
  configure_file(list.cc.in list.cc @ONLY)
  add_library(plugins_list STATIC EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/list.cc)
  foreach(library IN LISTS libraries)
    # A release has no unit tests: each library of its own would parse the same headers and make the same templates.
    if(CMAKE_UNITY_BUILD AND CMAKE_BUILD_TYPE STREQUAL "Release")
      get_target_property(sources ${library} SOURCES)
      target_sources(plugins_list PRIVATE ${sources})
      get_target_property(library ${library} LINK_LIBRARIES)
    endif()
    target_link_libraries(plugins_list PUBLIC ${library})
  endforeach()
  add_executable(${name} main.cc)
  # What the plugins share comes first, so that the templates of all lie next to it: each call maps less.
  target_link_libraries(
    ${name} PRIVATE -Wl,--whole-archive netlink_types netlink_route netlink_nf libcni plugins_links plugins_common
                    -Wl,--no-whole-archive plugins_list installer)
  add_custom_command(TARGET ${name} POST_BUILD ${links} VERBATIM)
  if(NOT CNI_SANITIZE)
    # By its build ID a copy is known as the same executable (suite.cc).
    target_link_options(${name} PRIVATE $<$<BOOL:${CNI_STRIP}>:-s> -static-pie -Wl,--build-id)
    if(CNI_PACKS_RELOCATIONS)  # 85 kB of them
      target_link_options(${name} PRIVATE -Wl,-z,pack-relative-relocs)
    endif()
  endif()
endfunction()
