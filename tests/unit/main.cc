#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <signal.h>

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);  // as plugin_main() does: a closed pipe is an error, not an end
  doctest::Context context(argc, argv);
  return context.run();
}
