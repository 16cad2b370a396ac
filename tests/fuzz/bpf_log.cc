// The log of the kernel's verifier.
#include <algorithm>

#include "netlink/bpf/log.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using fuzz::require;
  const std::string words = netlink::bpf::last_words(fuzz::text_of(data, size));
  require(words.size() <= size + 6, "the last words are a part of the log");
  require(std::count(words.begin(), words.end(), '\n') == 0, "they are one line");
  return 0;
}
