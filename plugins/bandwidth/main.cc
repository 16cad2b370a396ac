#include "libcni/plugin.h"
#include "plugins/bandwidth/bandwidth.h"
#include "plugins/bandwidth/conf.h"

int main(int argc, char** argv) {
  return cni::plugin_main({.name = "bandwidth",
                           .add = bandwidth::add,
                           .del = bandwidth::del,
                           .check = bandwidth::check,
                           .gc = bandwidth::gc,
                           .status = bandwidth::status,
                           .validate = bandwidth::validate,
                           .manual = &bandwidth::kManual,
                           .repair = bandwidth::repair},
                          argc, argv);
}
