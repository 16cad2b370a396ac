// The multi-call binary.
#include "libcni/plugin/suite.h"
#include "plugins/common/list.h"

int main(int argc, char** argv) { return cni::suite_main(plugins::kAll, argc, argv); }
