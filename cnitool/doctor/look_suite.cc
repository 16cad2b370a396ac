#include <filesystem>

#include "cnitool/doctor/look.h"
#include "cnitool/node_runtimes.h"
#include "libcni/common/split.h"
#include "libcni/plugin/node_tool.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/version_line.h"

namespace tool::doctor {

namespace {

// The file's own words; no file: it is no such executable. Others lack the mark, and are not run.
Suite suite_in(const std::string& file) try {
  constexpr std::chrono::seconds kLimit{2};
  if (!mentions(file, kPatchbayMark)) return {};
  Suite out{.file = file, .version = cni::version_line_of(file).patchbay};
  const cni::Outcome listed =
      cni::execute({.file = file, .arguments = {"--list"}, .own_group = true}, "", kLimit);
  if (out.version.empty() || !listed.ok()) return {};
  for (const auto name : cni::split(listed.out, "\n")) {
    if (!name.empty()) out.plugins.emplace(name);
  }
  return out.plugins.empty() ? Suite{} : out;
} catch (const std::exception&) {
  return {};
}

// Beside the plugins, beside cnitool, in PATH.
std::vector<std::string> places_of_suite(const std::vector<std::string>& dirs) {
  std::vector<std::string> out;
  std::error_code ignored;
  for (const std::string& dir : dirs) out.push_back(cat(dir, "/patchbay"));
  const auto own = std::filesystem::read_symlink("/proc/self/exe", ignored);
  if (!own.empty()) out.push_back((own.parent_path() / "patchbay").string());
  if (const auto found = cni::find_node_tool("patchbay")) out.push_back(*found);
  return out;
}

}  // namespace

Suite find_suite(const std::vector<std::string>& dirs) {
  Suite first;
  for (const std::string& file : places_of_suite(dirs)) {
    Suite found = suite_in(std::filesystem::absolute(file).lexically_normal().string());
    if (found.version == cni::build_version()) return found;
    if (first.file.empty()) first = std::move(found);
  }
  return first;
}

}  // namespace tool::doctor
