#include "libcni/plugin/plugin.h"

#include "plugins/bridge/bridge.h"
#include "plugins/bridge/conf.h"

namespace bridge {

extern constinit const cni::Plugin kPlugin{.name = "bridge",
                                           .add = add,
                                           .del = del,
                                           .check = check,
                                           .gc = gc,
                                           .status = status,
                                           .validate = validate,
                                           .manual = &kManual,
                                           .repair = repair};

}  // namespace bridge
