#include "libcni/plugin.h"
#include "plugins/static/conf.h"
#include "plugins/static/static_ipam.h"

int main(int argc, char** argv) {
  // DEL and GC are left out: they succeed, whatever the config.
  return cni::plugin_main({.name = "static",
                           .add = static_ipam::add,
                           .check = static_ipam::check,
                           .status = static_ipam::status,
                           .validate = static_ipam::validate,
                           .manual = &static_ipam::kManual},
                          argc, argv);
}
