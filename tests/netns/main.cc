// kernel_tests: the C++ tests on the kernel. Each file's tests run in a process and a network
// namespace of their own.
//   kernel_tests [NAME...] [doctest's options]     NAME: of NAME_test.cc; all of them without
// Exit status: 77 where none could run here.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/netns/node.h"

namespace {

int run_file(const node::TestFile& file, const std::vector<const char*>& options) {
  doctest::Context context(static_cast<int>(options.size()), options.data());
  context.addFilter("source-file", ("*/" + file.name + "_test.cc").c_str());
  std::string lacks = "root";
  if (node::enter_own_namespace()) lacks = file.lacks(context);
  if (lacks.empty()) return context.run();
  std::fprintf(stderr, "SKIP %s: needs %s\n", file.name.c_str(), lacks.c_str());
  return 77;
}

int in_a_child(const node::TestFile& file, const std::vector<const char*>& options) {
  std::printf("== %s\n", file.name.c_str());
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) std::exit(run_file(file, options));
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 1;
  return WEXITSTATUS(status);
}

bool is_option(const char* argument) { return argument[0] == '-'; }

}  // namespace

int main(int argc, char** argv) {
  std::vector<const char*> options(argv, argv + argc);
  std::erase_if(options, [&](const char* each) { return each != argv[0] && !is_option(each); });
  std::vector<std::string> names(argv + 1, argv + argc);
  std::erase_if(names, [](const std::string& each) { return is_option(each.c_str()); });
  if (names.empty()) {
    for (const node::TestFile& file : node::files()) names.push_back(file.name);
  }
  int failed = 0, ran = 0;
  for (const std::string& name : names) {
    const auto file = std::ranges::find(node::files(), name, &node::TestFile::name);
    if (file == node::files().end()) {
      std::fprintf(stderr, "no tests are called %s\n", name.c_str());
      return 2;
    }
    const int status = in_a_child(*file, options);
    ran += status != 77;
    failed += status != 77 && status != 0;
  }
  if (failed > 0) return 1;
  return ran > 0 ? 0 : 77;
}
