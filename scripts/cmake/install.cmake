# cmake --install: three components. `library` is libcni and the layer for links, addresses and routes, with the
# headers that a program needs which is a runtime or a plugin, for find_package(patchbay) and pkg-config; `tool` is
# cnitool with its completion, `plugins` the plugins and patchbay, which puts them into other folders; both have their
# manual pages.
include(CMakePackageConfigHelpers)

set(public_headers
  libcni/config/args.h libcni/runtime/cache.h libcni/config/conf.h libcni/runtime/conflist.h libcni/common/attachment.h libcni/common/error.h libcni/plugin/invoke.h
  libcni/plugin/collect.h libcni/plugin/life.h libcni/config/facts.h libcni/common/hash.h libcni/plugin/ipam.h libcni/config/json_value.h libcni/config/key.h libcni/config/key_values.h libcni/config/keys.h libcni/runtime/liveness.h libcni/common/phase.h
  libcni/plugin/plugin.h libcni/plugin/repair.h libcni/plugin/request.h libcni/config/result.h libcni/runtime/options.h libcni/runtime/runtime.h libcni/common/undo.h
  libcni/common/version.h netlink/netns.h netlink/sysctl.h netlink/types/error.h netlink/types/fd.h netlink/types/hints.h netlink/types/ip.h
  netlink/types/mac.h netlink/attributes.h netlink/channel.h netlink/message.h)
file(GLOB route_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/netlink/route/*.h)
list(APPEND public_headers ${route_headers})
set(include_dir ${CMAKE_INSTALL_INCLUDEDIR}/patchbay)
foreach(header IN LISTS public_headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${include_dir}/${folder}
          COMPONENT library)
endforeach()

set_target_properties(libcni PROPERTIES EXPORT_NAME cni)
set_target_properties(netlink_types PROPERTIES EXPORT_NAME types OUTPUT_NAME cni_types)
set_target_properties(netlink_route PROPERTIES EXPORT_NAME route OUTPUT_NAME cni_route)
foreach(target libcni netlink_route netlink_types)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} INTERFACE $<INSTALL_INTERFACE:${include_dir}>)
endforeach()
install(TARGETS libcni netlink_route netlink_types EXPORT patchbay
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/patchbay)
install(EXPORT patchbay NAMESPACE patchbay:: FILE patchbay-targets.cmake
        DESTINATION ${package_dir} COMPONENT library)
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/patchbay-config.cmake CONTENT [[
include(CMakeFindDependencyMacro)
find_dependency(nlohmann_json 3.11)
include(${CMAKE_CURRENT_LIST_DIR}/patchbay-targets.cmake)
]] @ONLY)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/patchbay-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/patchbay-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/patchbay-config-version.cmake
        DESTINATION ${package_dir} COMPONENT library)

# ${pcfiledir}: found wherever the prefix is moved to.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR
           BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE pc_include)
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/libcni.pc CONTENT [[
Name: libcni
Description: The Container Network Interface for C++: runtimes and plugins
Version: @PROJECT_VERSION@
Requires: nlohmann_json
Cflags: -std=c++20 -I${pcfiledir}/@pc_include@/patchbay
Libs: -L${pcfiledir}/.. -lcni -lcni_route -lcni_types
]] @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/libcni.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)

install(TARGETS cnitool RUNTIME COMPONENT tool)
set(documents $<TARGET_PROPERTY:cnitool,BINARY_DIR>)
install(FILES ${documents}/cnitool.bash RENAME cnitool
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tool)
install(FILES ${documents}/_cnitool
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT tool)
install(FILES ${documents}/cnitool.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT tool)

include(manual)
# Aside and renamed: CMake removes a file before it writes it, and no name may be missing while pods start.
get_property(plugins GLOBAL PROPERTY CNI_PLUGINS)
list(TRANSFORM plugins PREPEND single_ OUTPUT_VARIABLE programs)
install(TARGETS ${programs} patchbay RUNTIME DESTINATION ${CNI_PLUGIN_DIR}/.new COMPONENT plugins)
install(CODE "
  set(dir \"${CNI_PLUGIN_DIR}\")
  cmake_path(ABSOLUTE_PATH dir BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\" NORMALIZE)
  foreach(name ${plugins} patchbay)
    file(RENAME \"\$ENV{DESTDIR}\${dir}/.new/\${name}\" \"\$ENV{DESTDIR}\${dir}/\${name}\")
  endforeach()
  file(REMOVE_RECURSE \"\$ENV{DESTDIR}\${dir}/.new\")
  list(TRANSFORM CMAKE_INSTALL_MANIFEST_FILES REPLACE \"/\\\\.new/\" \"/\")" COMPONENT plugins)
# The unit has the path of the plugin: the prefix is known when it is installed.
set(units ${PROJECT_SOURCE_DIR}/plugins/dhcp/systemd)
set(unit ${CMAKE_CURRENT_BINARY_DIR}/cni-dhcp.service)
install(CODE "
  set(dir \"${CNI_PLUGIN_DIR}\")
  cmake_path(ABSOLUTE_PATH dir BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\" NORMALIZE)
  file(READ ${units}/cni-dhcp.service text)
  string(REPLACE /opt/cni/bin \"\${dir}\" text \"\${text}\")
  file(WRITE ${unit} \"\${text}\")" COMPONENT plugins)
install(FILES ${unit} ${units}/cni-dhcp.socket DESTINATION lib/systemd/system COMPONENT plugins)

# A component of its own, because it needs the libc of the host.
if(CNI_AGENT)
  set(agent_unit ${CMAKE_CURRENT_BINARY_DIR}/patchbay-agent.service)
  install(TARGETS patchbay-agent RUNTIME DESTINATION ${CMAKE_INSTALL_SBINDIR} COMPONENT agent)
  install(CODE "
    set(dir \"${CMAKE_INSTALL_SBINDIR}\")
    cmake_path(ABSOLUTE_PATH dir BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\" NORMALIZE)
    file(READ ${PROJECT_SOURCE_DIR}/plugins/devices/agent/systemd/patchbay-agent.service text)
    string(REPLACE /usr/local/sbin \"\${dir}\" text \"\${text}\")
    file(WRITE ${agent_unit} \"\${text}\")" COMPONENT agent)
  install(FILES ${agent_unit} DESTINATION lib/systemd/system COMPONENT agent)
endif()
