#include "libcni/plugin.h"
#include "plugins/loopback/loopback.h"

int main(int argc, char** argv) {
  return cni::plugin_main({.name = "loopback",
                           .add = loopback::add,
                           .del = loopback::del,
                           .check = loopback::check,
                           .gc = loopback::gc,
                           .status = loopback::status,
                           .validate = loopback::validate,
                           .manual = &loopback::kManual,
                           .repair = loopback::repair},
                          argc, argv);
}
