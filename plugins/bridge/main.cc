#include "libcni/plugin.h"
#include "plugins/bridge/bridge.h"

int main() {
  return cni::plugin_main({.name = "bridge",
                           .add = bridge::add,
                           .del = bridge::del,
                           .check = bridge::check,
                           .gc = bridge::gc,
                           .status = bridge::status});
}
