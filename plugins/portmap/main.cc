#include "libcni/plugin/plugin.h"
#include "plugins/portmap/portmap.h"

// portmap-nft: what portmap becomes where conditions in nft's words need libnftables, and that the
// host's libc.
int main(int argc, char** argv) { return cni::plugin_main(portmap::kPlugin, argc, argv); }
