#include "libcni/plugin/plugin.h"

#include "plugins/static/conf.h"
#include "plugins/static/static_ipam.h"

namespace static_ipam {

// DEL and GC are left out: they succeed, whatever the config.
extern constinit const cni::Plugin kPlugin{.name = "static",
                                           .add = add,
                                           .check = check,
                                           .status = status,
                                           .validate = validate,
                                           .manual = &kManual};

}  // namespace static_ipam
