#include "libcni/plugin/version_line.h"

#include <algorithm>

#include "libcni/plugin/invoke.h"
#include "netlink/types/error.h"

namespace cni {

VersionLine version_line_in(std::string_view printed) {
  constexpr std::string_view kBefore = "CNI ", kAfter = " plugin", kPatchbay = "patchbay ";
  VersionLine out{.line = std::string(printed.substr(0, printed.find('\n'))),
                  .plugin = {},
                  .version = {},
                  .patchbay = {}};
  const auto after = cat(out.line, " ").find(cat(kAfter, " "));
  if (!out.line.starts_with(kBefore) || after == std::string::npos) return out;
  out.plugin = out.line.substr(kBefore.size(), after - kBefore.size());
  out.version = out.line.substr(std::min(after + kAfter.size() + 1, out.line.size()));
  if (out.version.starts_with(kPatchbay)) {
    out.patchbay = out.version.substr(kPatchbay.size());
    out.patchbay.resize(std::min(out.patchbay.find(' '), out.patchbay.size()));
  }
  return out;
}

VersionLine version_line_of(const std::string& file) {
  const Executable program{.file = file, .arguments = {"--version"}, .own_group = true};
  const Outcome outcome = execute(program, "", std::chrono::seconds(2));
  return version_line_in(netlink::cat(outcome.out, outcome.err));
}

}  // namespace cni
