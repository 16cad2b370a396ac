# precompile(FOLDER...): what nearly all sources include is parsed once for all targets of the folders,
# which have to be compiled with the same flags. A missing include is not noticed with it.
function(precompile)
  list(LENGTH ARGN count)
  list(GET ARGN 0 first)
  string(MAKE_C_IDENTIFIER "precompiled_${first}" header)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${header}.cc CONTENT "")
  add_library(${header} OBJECT ${PROJECT_BINARY_DIR}/${header}.cc)
  target_link_libraries(${header} PRIVATE cni_flags)
  target_precompile_headers(${header} PRIVATE <nlohmann/json.hpp>
    <algorithm> <array> <chrono> <filesystem> <fstream> <functional> <map> <memory> <optional> <set>
    <span> <sstream> <string> <string_view> <utility> <variant> <vector>)
  get_property(options DIRECTORY ${first} PROPERTY COMPILE_OPTIONS)
  target_compile_options(${header} PRIVATE ${options})
  foreach(folder IN LISTS ARGN)
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target IN LISTS targets)
      get_target_property(type ${target} TYPE)
      if(NOT type MATCHES "^(EXECUTABLE|STATIC_LIBRARY|OBJECT_LIBRARY)$")
        continue()
      endif()
      target_precompile_headers(${target} REUSE_FROM ${header})
      if(type STREQUAL EXECUTABLE)  # else it is -fPIE, which is other code
        set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
        target_compile_options(${target} PRIVATE -fPIC)
      endif()
    endforeach()
  endforeach()
endfunction()
