#include "installer/new_folder.h"

#include <algorithm>
#include <filesystem>

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

}  // namespace

std::optional<std::string> text_of_new(const std::string& dir) {
  if (cni::Dir::exists(dir)) return std::nullopt;
  fs::path whole = fs::absolute(dir).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();  // "/opt/cni/bin/"
  std::string near = similar_to(whole);
  if (near.ends_with('/')) near.pop_back();
  const std::string meant = near.empty() ? "" : cat(" (did you mean ", near, "?)");
  return cat("made      ", dir, ", a new folder", meant,
             "; `cnitool runtimes` prints where the runtimes of a node look");
}

}  // namespace installer
