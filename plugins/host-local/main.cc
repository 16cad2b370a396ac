#include "libcni/plugin.h"
#include "plugins/host-local/conf.h"
#include "plugins/host-local/host_local.h"

int main(int argc, char** argv) {
  return cni::plugin_main({.name = "host-local",
                           .add = host_local::add,
                           .del = host_local::del,
                           .check = host_local::check,
                           .gc = host_local::gc,
                           .status = host_local::status,
                           .validate = host_local::validate,
                           .manual = &host_local::kManual},
                          argc, argv);
}
