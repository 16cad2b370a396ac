// Gives a target every input of the folders that are named, once: for builds without libFuzzer.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include "netlink/types/fd.h"
#include "tests/fuzz/fuzz.h"

int main(int argc, char** argv) try {
  int inputs = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& file : std::filesystem::directory_iterator(argv[i])) {
      const std::string input = netlink::read_file(file.path().string()).value();
      std::printf("%s\n", file.path().c_str());
      std::fflush(stdout);  // the last one is the one that ends the process
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
      ++inputs;
    }
  }
  std::printf("%d inputs\n", inputs);
  return inputs > 0 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "an exception left the target: %s\n", e.what());
  return 1;
}
