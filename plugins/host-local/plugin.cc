#include "libcni/plugin/plugin.h"

#include "plugins/host-local/conf.h"
#include "plugins/host-local/host_local.h"

namespace host_local {

extern constinit const cni::Plugin kPlugin{.name = "host-local",
                                           .add = add,
                                           .del = del,
                                           .check = check,
                                           .gc = gc,
                                           .status = status,
                                           .validate = validate,
                                           .manual = &kManual};

}  // namespace host_local
