#include "libcni/plugin/suite.h"
#include "plugins/bandwidth/bandwidth.h"
#include "plugins/bridge/bridge.h"
#include "plugins/host-local/host_local.h"
#include "plugins/loopback/loopback.h"
#include "plugins/portmap/portmap.h"
#include "plugins/static/static_ipam.h"

int main(int argc, char** argv) {
  static constexpr const cni::Plugin* kPlugins[] = {&bandwidth::kPlugin,  &bridge::kPlugin,
                                                    &host_local::kPlugin, &loopback::kPlugin,
                                                    &portmap::kPlugin,    &static_ipam::kPlugin};
  return cni::suite_main(kPlugins, argc, argv);
}
