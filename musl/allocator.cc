// malloc() of the executable where libc is musl. musl's own maps and unmaps memory for nearly every
// vector that grows, some fifty system calls a process and as many pages anew. A plugin lives for
// milliseconds and allocates in one thread: memory that it frees is kept for what it asks for next.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

constexpr std::size_t kGrain = 16;   // alignof(std::max_align_t)
constexpr std::size_t kFine = 1024;  // up to here there is a list for each multiple of the grain
constexpr std::size_t kChunk = 256 << 10;
constexpr std::size_t kLargest = PTRDIFF_MAX / 4;

// Lies in front of what it is for, which begins at a multiple of the grain.
struct Head {
  std::size_t size;  // of both
};

struct Free {
  Head head;
  Free* next;
};

alignas(kGrain) std::array<char, kChunk> first_chunk;
char* unused = first_chunk.data() + kGrain - sizeof(Head);
char* chunk_end = first_chunk.data() + kChunk;
// For what follows a refusal: an ADD that ran out of memory has to take back what it did, and of
// what it gives up on the way no piece may have the size that is wanted.
alignas(kGrain) std::array<char, kChunk> reserve;
bool was_refused = false;
bool is_reserve_used = false;
std::array<Free*, kFine / kGrain + 1> fine;
std::array<Free*, 64> coarse;  // by the power of two

// Large ones are a power of two, as buffers are, and a grain for the head.
std::size_t with_head(std::size_t size) {
  const std::size_t all = (size + sizeof(Head) + kGrain - 1) & ~(kGrain - 1);
  return all <= kFine ? std::max(all, 2 * kGrain) : std::bit_ceil(size) + kGrain;
}

Free*& list_of(std::size_t size) {
  return size <= kFine ? fine[size / kGrain]
                       : coarse[static_cast<std::size_t>(std::countr_zero(size - kGrain))];
}

void use_chunk(char* at, std::size_t size) {
  unused = at + kGrain - sizeof(Head);
  chunk_end = at + size;
}

// The first refusal is told; after it there is the reserve.
bool use_reserve(std::size_t size) {
  const bool is_free = was_refused && !is_reserve_used && size + kGrain <= reserve.size();
  was_refused = true;
  if (!is_free) return false;
  is_reserve_used = true;
  use_chunk(reserve.data(), reserve.size());
  return true;
}

// Without a mapping that is large enough the old one stays in use.
bool map_chunk(std::size_t size) {
  const std::size_t room = std::max(kChunk, size + kGrain);
  void* at = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return use_reserve(size);
  use_chunk(static_cast<char*>(at), room);
  return true;
}

Head* head_of(void* content) {
  return reinterpret_cast<Head*>(static_cast<char*>(content) - sizeof(Head));
}

void* content_of(Head* head) { return reinterpret_cast<char*>(head) + sizeof(Head); }

}  // namespace

extern "C" {

void* malloc(std::size_t size) {
  if (size > kLargest) {
    errno = ENOMEM;
    return nullptr;
  }
  const std::size_t need = with_head(size);
  Free*& list = list_of(need);
  if (list != nullptr) {
    Free* block = list;
    list = block->next;
    return content_of(&block->head);
  }
  if (static_cast<std::size_t>(chunk_end - unused) < need && !map_chunk(need)) {
    errno = ENOMEM;
    return nullptr;
  }
  auto* head = reinterpret_cast<Head*>(unused);
  unused += need;
  head->size = need;
  return content_of(head);
}

void free(void* content) {
  if (content == nullptr) return;
  auto* block = reinterpret_cast<Free*>(head_of(content));
  Free*& list = list_of(block->head.size);
  block->next = list;
  list = block;
}

void* calloc(std::size_t count, std::size_t size) {
  std::size_t all = 0;
  if (__builtin_mul_overflow(count, size, &all)) all = SIZE_MAX;  // which malloc() refuses
  void* content = malloc(all);
  return content != nullptr ? std::memset(content, 0, all) : nullptr;
}

void* realloc(void* content, std::size_t size) {
  if (content == nullptr) return malloc(size);
  const std::size_t had = head_of(content)->size - sizeof(Head);
  if (size <= had) return content;
  void* larger = malloc(size);
  if (larger == nullptr) return nullptr;
  std::memcpy(larger, content, had);
  free(content);
  return larger;
}

}  // extern "C"
