# Run by each build: writes SOURCE, which has the version with the commit of what is in ROOT, and a + if that differs
# from the commit. Without git, as in an unpacked tarball, it is the version alone. An equal file is not written again.
set(suffix "")
find_program(GIT git)
if(GIT AND EXISTS ${ROOT}/.git)
  set(git ${GIT} --no-optional-locks -C ${ROOT})
  execute_process(COMMAND ${git} rev-parse --short=12 HEAD OUTPUT_VARIABLE commit ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  execute_process(COMMAND ${git} status --porcelain --untracked-files=no OUTPUT_VARIABLE changes ERROR_QUIET)
  if(commit AND changes)
    string(APPEND commit "+")
  endif()
  if(commit)
    set(suffix " (commit ${commit})")
  endif()
endif()
file(CONFIGURE OUTPUT ${SOURCE} @ONLY CONTENT [[
#include "libcni/plugin/plugin.h"

namespace cni {

std::string_view build_text() { return PATCHBAY_VERSION "@suffix@"; }

}  // namespace cni
]])
