#pragma once

#include <cstdint>

namespace cni {

/// The ELF note (elf(5)) that all executables of one build have within their first page.
struct alignas(4) BuildNote {
  std::uint32_t name_size = sizeof name;
  std::uint32_t hash_size = sizeof hash;
  std::uint32_t type = 1;
  char name[12] = "patchbay";
  char hash[36] = {};  ///< 32 hexadecimal digits
};

}  // namespace cni

/// Of this executable; not there in one that is none of patchbay's plugins.
extern "C" __attribute__((weak, visibility("hidden"), section(".note.patchbay")))
const cni::BuildNote patchbay_build_note;
