#include "installer/new_folder.h"

#include <algorithm>
#include <filesystem>

#include "installer/runtimes.h"
#include "libcni/common/dir.h"
#include "libcni/config/nearest.h"
#include "netlink/types/error.h"

namespace installer {

namespace {

namespace fs = std::filesystem;
using netlink::cat;

// "/opt/cni/bin" for "/opt/cnii/bin": the first part that does not exist may be a slip of the pen.
// Empty: nothing is like it.
std::string similar_to(const fs::path& dir) {
  std::error_code ignored;
  fs::path part = dir;
  while (part.has_relative_path() && !fs::exists(part.parent_path(), ignored)) {
    part = part.parent_path();
  }
  const fs::path parent = part.parent_path();
  auto beside = cni::names_in(parent.string());
  std::erase_if(beside,
                [&](const auto& name) { return !fs::is_directory(parent / name, ignored); });
  const std::string near = cni::nearest(part.filename().string(), beside);
  if (near.empty()) return {};
  return (parent / near / dir.lexically_relative(part)).lexically_normal().string();
}

bool looks_in(const Runtime& runtime, const std::string& dir) {
  return std::ranges::count(runtime.folders, dir) != 0;
}

}  // namespace

std::optional<std::string> text_of_new(const std::string& dir) {
  if (cni::Dir::exists(dir)) return std::nullopt;
  fs::path whole = fs::absolute(dir).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();  // "/opt/cni/bin/"
  std::string near = similar_to(whole);
  if (near.ends_with('/')) near.pop_back();
  std::string out = cat("made      ", dir, ", a new folder");
  if (!near.empty()) out += cat(" (did you mean ", near, "?)");
  const auto runtimes = runtimes_here();
  const bool is_known =
      std::ranges::any_of(runtimes, [&](const auto& one) { return looks_in(one, whole.string()); });
  for (const Runtime& one : runtimes) {
    if (!is_known) out += cat("; ", one.name, " looks for plugins in ", folder_of(one));
  }
  return out;
}

}  // namespace installer
