# patchbay::cni (libcni), patchbay::route (links, addresses and routes) and patchbay::types, as find_package(patchbay) has
# them: for a project that has this one as a folder. The warnings and the hardening of this project stay its own.
function(library_for_others name target)
  add_library(patchbay_${name} INTERFACE)
  target_link_libraries(patchbay_${name} INTERFACE $<LINK_ONLY:${target}> ${ARGN})
  target_include_directories(patchbay_${name} INTERFACE ${PROJECT_SOURCE_DIR})
  target_compile_features(patchbay_${name} INTERFACE cxx_std_20)
  add_library(patchbay::${name} ALIAS patchbay_${name})
endfunction()
library_for_others(types netlink_types)
library_for_others(route netlink_route)
library_for_others(cni libcni nlohmann_json::nlohmann_json)
