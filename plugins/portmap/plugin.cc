#include "libcni/plugin/plugin.h"

#include "plugins/portmap/conditions.h"
#include "plugins/portmap/conf.h"
#include "plugins/portmap/portmap.h"

namespace portmap {

extern constinit const cni::Plugin kPlugin{.name = "portmap",
                                           .add = add,
                                           .del = del,
                                           .check = check,
                                           .gc = gc,
                                           .status = status,
                                           .validate = validate,
                                           .manual = &kManual,
                                           .elsewhere = elsewhere,
                                           .repair = repair};

}  // namespace portmap
