#include "libcni/plugin.h"
#include "plugins/portmap/portmap.h"

int main() {
  return cni::plugin_main({.name = "portmap",
                           .add = portmap::add,
                           .del = portmap::del,
                           .check = portmap::check,
                           .gc = portmap::gc,
                           .status = portmap::status});
}
