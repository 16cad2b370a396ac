#include "libcni/plugin.h"
#include "plugins/portmap/portmap.h"

// A program of its own: libnftables, which it may load, needs the host's libc.
int main(int argc, char** argv) { return cni::plugin_main(portmap::kPlugin, argc, argv); }
