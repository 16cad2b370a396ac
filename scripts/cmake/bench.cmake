# bench_program(NAME SOURCE): a program of tests/bench. Static: what is measured beside it is, too, and a
# process begins with the memory of who spawned it.
function(bench_program name source)
  add_executable(${name} ${CMAKE_SOURCE_DIR}/tests/bench/${source})
  target_link_libraries(${name} PRIVATE cni_flags)
  target_compile_options(${name} PRIVATE -O2 -fno-pie)
  target_link_options(${name} PRIVATE -static -no-pie)
endfunction()

# The floor has the libc that patchbay has; what it is called as tells whose part it does.
function(bench_floor)
  bench_program(bench_floor floor.cc)
  foreach(plugin bridge portmap bandwidth)
    add_custom_command(TARGET bench_floor POST_BUILD COMMAND ${CMAKE_COMMAND} -E create_symlink
      bench_floor floor_${plugin} WORKING_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  endforeach()
endfunction()
