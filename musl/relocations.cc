// musl's start of a static executable relocates it and leaves what it wrote to writable; where
// there is a dynamic linker, that one makes it read-only (ld(1), -z relro), and so does glibc's
// start.
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <span>

extern "C" const char __ehdr_start[];  // ld's: where the executable begins

namespace {

// Before the constructors of everything else.
[[gnu::constructor(101)]] void protect_relocations() {
  const std::span segments(reinterpret_cast<const ElfW(Phdr)*>(::getauxval(AT_PHDR)),
                           ::getauxval(AT_PHNUM));
  const auto page = static_cast<std::uintptr_t>(::getauxval(AT_PAGESZ));
  for (const auto& segment : segments) {
    if (segment.p_type != PT_GNU_RELRO) continue;
    const auto start = reinterpret_cast<std::uintptr_t>(__ehdr_start) + segment.p_vaddr;
    const std::uintptr_t first = start & ~(page - 1);
    const std::uintptr_t end = (start + segment.p_memsz) & ~(page - 1);
    if (::mprotect(reinterpret_cast<void*>(first), end - first, PROT_READ) != 0) std::abort();
  }
}

}  // namespace
