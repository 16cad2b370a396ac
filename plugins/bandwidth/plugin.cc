#include "libcni/plugin/plugin.h"

#include "plugins/bandwidth/bandwidth.h"
#include "plugins/bandwidth/conf.h"

namespace bandwidth {

extern constinit const cni::Plugin kPlugin{.name = "bandwidth",
                                           .add = add,
                                           .del = del,
                                           .check = check,
                                           .gc = gc,
                                           .status = status,
                                           .validate = validate,
                                           .manual = &kManual,
                                           .repair = repair};

}  // namespace bandwidth
