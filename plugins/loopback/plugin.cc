#include "libcni/plugin/plugin.h"

#include "plugins/loopback/loopback.h"

namespace loopback {

extern constinit const cni::Plugin kPlugin{.name = "loopback",
                                           .add = add,
                                           .del = del,
                                           .check = check,
                                           .gc = gc,
                                           .status = status,
                                           .validate = validate,
                                           .manual = &kManual,
                                           .repair = repair};

}  // namespace loopback
