# CNI_AGENT: patchbay-agent, the daemon of the plugin devices. It speaks gRPC with the kubelet, by libgrpc++ and protobuf, and
# HTTP with the API server, by libcurl: curl.cmake.
find_program(AGENT_PROTOC NAMES protoc)
find_program(AGENT_PROTOC_GRPC NAMES grpc_cpp_plugin)
pkg_check_modules(GRPC QUIET grpc++ protobuf-lite)
pkg_check_modules(RE2 QUIET re2)
pkg_check_modules(CURL QUIET libcurl)
pkg_check_modules(YAML QUIET yaml-0.1)

set(_agent_missing)
if(NOT AGENT_PROTOC)
  list(APPEND _agent_missing protoc)
endif()
if(NOT AGENT_PROTOC_GRPC)
  list(APPEND _agent_missing grpc_cpp_plugin)
endif()
if(NOT GRPC_FOUND)
  list(APPEND _agent_missing libgrpc++)
endif()
if(NOT CURL_FOUND)
  list(APPEND _agent_missing libcurl)
endif()
if(NOT YAML_FOUND)
  list(APPEND _agent_missing libyaml)
endif()
list(JOIN _agent_missing " and " _agent_missing)
# As CNI_BPF.
set(CNI_AGENT "" CACHE STRING "patchbay-agent: ON, OFF; empty: ON where libgrpc++, protobuf, their compilers, libcurl and libyaml are installed")
if(CNI_AGENT AND _agent_missing)
  message(FATAL_ERROR "CNI_AGENT needs ${_agent_missing}")
elseif(_agent_missing)
  message(STATUS "Without patchbay-agent, as there is no ${_agent_missing} (scripts/install-deps build)")
  set(CNI_AGENT OFF)
elseif(CNI_AGENT STREQUAL "")
  set(CNI_AGENT ON)
endif()

# GRPC_LINKED: libgrpc++, protobuf and what they need. The archives need each other, and some that the .pc file does not have.
set(GRPC_LINKED)
if(CNI_AGENT)
  set(_libraries ${GRPC_LIBRARIES})
  if(CNI_STATIC_GRPC)
    set(_libraries ${GRPC_STATIC_LIBRARIES} upb address_sorting cares re2 ${RE2_STATIC_LIBRARIES} z)
  endif()
  list(REMOVE_DUPLICATES _libraries)
  list(REMOVE_ITEM _libraries pthread dl rt m atomic)  # of libc and the compiler
  list(REMOVE_ITEM _libraries ssl crypto)  # curl.cmake has them: libcurl and gRPC use one OpenSSL
  cni_libraries(GRPC_LINKED "${CNI_STATIC_GRPC}" "${GRPC_STATIC_LIBRARY_DIRS}" ${_libraries})
  set(_grpc ${GRPC_LINKED})
  list(FILTER _grpc INCLUDE REGEX "/libgrpc\\.a$")
  if(_grpc)  # as a target, so that CMake knows what has to come after the group: curl.cmake
    add_library(grpc_core STATIC IMPORTED GLOBAL)
    set_target_properties(grpc_core PROPERTIES IMPORTED_LOCATION ${_grpc})
    list(TRANSFORM GRPC_LINKED REPLACE "^${_grpc}$" grpc_core)
  endif()
  list(JOIN GRPC_LINKED "," GRPC_LINKED)
  set(GRPC_LINKED "$<LINK_GROUP:RESCAN,${GRPC_LINKED}>")
endif()

# protocol(TARGET FILE...): the library of what protoc makes of the files, x.proto in the current folder. It is included
# as "x.grpc.pb.h". Generated sources are compiled without this project's warnings.
function(protocol target)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/proto)
  file(MAKE_DIRECTORY ${folder})
  set(sources)
  foreach(file IN LISTS ARGN)
    cmake_path(GET file STEM name)
    set(made ${folder}/${name}.pb.cc ${folder}/${name}.grpc.pb.cc)
    add_custom_command(
      OUTPUT ${made} ${folder}/${name}.pb.h ${folder}/${name}.grpc.pb.h
      COMMAND ${AGENT_PROTOC} -I${CMAKE_CURRENT_SOURCE_DIR}/proto --cpp_out=${folder} --grpc_out=${folder}
              --plugin=protoc-gen-grpc=${AGENT_PROTOC_GRPC} ${CMAKE_CURRENT_SOURCE_DIR}/${file}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file} VERBATIM)
    list(APPEND sources ${made})
  endforeach()
  add_custom_target(${target}_sources DEPENDS ${sources})  # for scripts/tidy, which builds nothing else
  add_library(${target} STATIC ${sources})
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  target_link_libraries(${target} PUBLIC cni_flags PRIVATE ${GRPC_LINKED})
  target_include_directories(${target} SYSTEM PUBLIC ${folder} ${GRPC_INCLUDE_DIRS})
  target_compile_options(${target} PRIVATE -w)
endfunction()
