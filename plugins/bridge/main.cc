#include "libcni/plugin.h"
#include "plugins/bridge/bridge.h"
#include "plugins/bridge/conf.h"

int main(int argc, char** argv) {
  return cni::plugin_main({.name = "bridge",
                           .add = bridge::add,
                           .del = bridge::del,
                           .check = bridge::check,
                           .gc = bridge::gc,
                           .status = bridge::status,
                           .validate = bridge::validate,
                           .manual = &bridge::kManual,
                           .repair = bridge::repair},
                          argc, argv);
}
