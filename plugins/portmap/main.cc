#include "libcni/plugin.h"
#include "plugins/portmap/conf.h"
#include "plugins/portmap/portmap.h"

int main(int argc, char** argv) {
  return cni::plugin_main({.name = "portmap",
                           .add = portmap::add,
                           .del = portmap::del,
                           .check = portmap::check,
                           .gc = portmap::gc,
                           .status = portmap::status,
                           .validate = portmap::validate,
                           .manual = &portmap::kManual,
                           .repair = portmap::repair},
                          argc, argv);
}
