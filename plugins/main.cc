// The multi-call binary.
#include "installer/commands.h"
#include "libcni/plugin/suite.h"
#include "plugins/list.h"
#include "plugins/origin.h"

int main(int argc, char** argv) {
  return cni::suite_main(plugins::kAll, installer::kCommands, argc, argv);
}
