# Writes NOTE, the source of an ELF note (elf(5)) with a hash of FILES, the libraries of an executable.
foreach(file IN LISTS FILES)
  file(SHA256 ${file} hash)
  string(APPEND hashes ${hash})
endforeach()
string(SHA256 hash "${hashes}")
string(SUBSTRING ${hash} 0 32 hash)
file(WRITE ${NOTE} "// Of scripts/cmake/build_note.cmake.
#include \"libcni/plugin/build_note.h\"

extern \"C\" __attribute__((used, aligned(4))) const cni::BuildNote patchbay_build_note{.hash = {\"${hash}\"}};
")
