// The malloc of executables with musl, under other names: here libc has one.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#define malloc oneshot_malloc
#define calloc oneshot_calloc
#define realloc oneshot_realloc
#define free oneshot_free
#include "musl/allocator.cc"
#undef malloc
#undef calloc
#undef realloc
#undef free

namespace {

/// A piece of memory, all of whose bytes are its mark.
struct Piece {
  unsigned char* at;
  std::size_t size;
  unsigned char mark;

  void fill() const { std::fill_n(at, size, mark); }
  bool is_intact(std::size_t first) const {
    return std::all_of(at, at + first, [this](unsigned char byte) { return byte == mark; });
  }
};

bool is_aligned(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at) % alignof(std::max_align_t) == 0;
}

/// Small ones mostly, now and then one larger than a chunk.
std::size_t some_size(std::mt19937& random) {
  const auto bits = static_cast<unsigned>(random() % 40 == 0 ? 21 : 1 + random() % 14);
  return random() % (1U << bits);
}

}  // namespace

TEST_CASE("each size has room of its own, aligned for anything") {
  std::vector<Piece> pieces;
  for (std::size_t size = 0; size < 3000; ++size) {
    auto* const at = static_cast<unsigned char*>(oneshot_malloc(size));
    REQUIRE(at != nullptr);
    CHECK(is_aligned(at));
    pieces.push_back({at, size, static_cast<unsigned char>(size)});
    pieces.back().fill();
  }
  for (const Piece& piece : pieces) {
    CHECK(piece.is_intact(piece.size));
    oneshot_free(piece.at);
  }
}

TEST_CASE("what comes and goes at random keeps what is written there") {
  std::mt19937 random(20260101);  // NOLINT(cert-msc51-cpp): the same each time
  std::vector<Piece> pieces;
  for (unsigned step = 0; step < 50'000; ++step) {
    const std::size_t pick = pieces.empty() ? 0 : random() % pieces.size();
    if (pieces.size() < 200 || random() % 3 == 0) {
      const std::size_t size = some_size(random);
      auto* const at = static_cast<unsigned char*>(oneshot_malloc(size));
      REQUIRE(at != nullptr);
      pieces.push_back({at, size, static_cast<unsigned char>(step)});
      pieces.back().fill();
    } else if (random() % 2 == 0) {
      Piece& piece = pieces[pick];
      const std::size_t size = some_size(random);
      piece.at = static_cast<unsigned char*>(oneshot_realloc(piece.at, size));
      REQUIRE(piece.is_intact(std::min(piece.size, size)));
      piece.size = size;
      piece.fill();
    } else {
      REQUIRE(pieces[pick].is_intact(pieces[pick].size));
      oneshot_free(pieces[pick].at);
      pieces[pick] = pieces.back();
      pieces.pop_back();
    }
  }
  for (const Piece& piece : pieces) {
    CHECK(piece.is_intact(piece.size));
    oneshot_free(piece.at);
  }
}

TEST_CASE("what was given back is used again, and calloc() clears it") {
  for (const std::size_t size : {std::size_t{100}, std::size_t{5000}, std::size_t{400'000}}) {
    void* const first = oneshot_malloc(size);
    std::memset(first, 0xff, size);
    oneshot_free(first);
    auto* const again = static_cast<unsigned char*>(oneshot_calloc(size, 1));
    CHECK(again == first);
    CHECK(std::all_of(again, again + size, [](unsigned char byte) { return byte == 0; }));
    oneshot_free(again);
  }
}

TEST_CASE("what cannot be had is refused with ENOMEM") {
  const auto is_refused = [](const void* at) { return at == nullptr && errno == ENOMEM; };
  errno = 0;
  CHECK(is_refused(oneshot_malloc(SIZE_MAX)));
  errno = 0;
  CHECK(is_refused(oneshot_malloc(PTRDIFF_MAX / 8)));  // more than there are addresses
  errno = 0;
  CHECK(is_refused(oneshot_calloc(SIZE_MAX / 2, 3)));
  void* const kept = oneshot_malloc(16);
  std::memset(kept, 7, 16);
  errno = 0;
  CHECK(is_refused(oneshot_realloc(kept, SIZE_MAX)));
  CHECK(static_cast<unsigned char*>(kept)[15] == 7);
  oneshot_free(kept);
  oneshot_free(nullptr);
  CHECK(oneshot_realloc(nullptr, 8) != nullptr);
}

TEST_CASE("after a refusal there is a reserve, once") {
  CHECK(oneshot_malloc(PTRDIFF_MAX / 8) == nullptr);
  CHECK(!use_reserve(2 * reserve.size()));
  REQUIRE(use_reserve(700));
  CHECK(unused > reserve.data());  // from where what has no free piece is taken
  CHECK(chunk_end == reserve.data() + reserve.size());
  CHECK(!use_reserve(700));
}
