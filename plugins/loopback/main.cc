#include "libcni/plugin.h"
#include "plugins/loopback/loopback.h"

int main() {
  return cni::plugin_main({.name = "loopback",
                           .add = loopback::add,
                           .del = loopback::del,
                           .check = loopback::check,
                           .gc = loopback::gc,
                           .status = loopback::status});
}
