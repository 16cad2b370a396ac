#include "libcni/plugin.h"
#include "plugins/bandwidth/bandwidth.h"

int main() {
  return cni::plugin_main({.name = "bandwidth",
                           .add = bandwidth::add,
                           .del = bandwidth::del,
                           .check = bandwidth::check,
                           .gc = bandwidth::gc,
                           .status = bandwidth::status});
}
