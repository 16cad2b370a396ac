#include "cnitool/doctor/plugin_files.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/delegate.h"
#include "cnitool/doctor/node.h"
#include "cnitool/doctor/places.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/known_plugins.h"
#include "cnitool/node_runtimes.h"
#include "cnitool/output.h"
#include "cnitool/pool.h"
#include "cnitool/validate/plugin_facts.h"
#include "libcni/common/split.h"
#include "libcni/config/names.h"
#include "libcni/plugin/log.h"
#include "libcni/plugin/node_tool.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/version_line.h"
#include "libcni/runtime/plugin_call.h"

namespace tool::doctor {

namespace {

using cni::NetworkList;
using cni::PluginConf;
using cni::RuntimeOptions;
using nlohmann::json;

bool is_file(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode);
}

// Asks a plugin of this project what it is. Others lack its mark in their file and are not run.
void ask_for_name(PluginFile& of) {
  if (!mentions(of.file, kPatchbayMark)) return;
  const cni::VersionLine said = cni::version_line_of(of.file);
  of.patchbay = said.patchbay;
  if (!said.plugin.empty() && !cni::stands_for(of.type, said.plugin)) of.another = said.plugin;
}

PluginFile program_of(const std::string& type, const RuntimeOptions& options) {
  PluginFile out{.type = type};
  for (const std::string& dir : options.path) {
    const std::string file = cat(dir, "/", type);
    if (!is_file(file)) continue;
    (out.file.empty() ? out.file : out.later.emplace_back()) = file;
  }
  if (out.file.empty()) {
    out.similar = Plugins(joined(options.path, ":"), options.env).similar(type);
    return out;
  }
  out.is_executable = ::access(out.file.c_str(), X_OK) == 0;
  struct statvfs about {};
  out.is_on_noexec = ::statvfs(out.file.c_str(), &about) == 0 && (about.f_flag & ST_NOEXEC) != 0;
  if (!out.is_executable) return out;
  NetworkList list;
  list.name = "doctor";
  list.plugins.push_back({.type = type, .conf = nlohmann::json::object()});
  try {
    out.versions = cni::Runtime(options).versions(list).front().versions;
    ask_for_name(out);
  } catch (const std::exception& e) {
    out.failure = e.what();
  }
  return out;
}

bool know_status(const Node& node, const std::set<std::string>& types) {
  return std::ranges::all_of(types, [&node](const std::string& type) {
    const PluginFile* const program = node.program(type);
    return program != nullptr && !program->is_broken() &&
           std::ranges::count(program->versions, "1.1.0") != 0;
  });
}

// containerd adds such a network of its own to each pod, and needs no plugin to remove it.
bool is_of_containerd(const std::set<std::string>& types) {
  return std::ranges::all_of(
      types, [](const std::string& type) { return facts_of(type).has(cni::Fact::kLoopback); });
}

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

std::set<std::string> types_of(const cni::PluginConf& plugin) {
  const cni::PluginConf made = effective(plugin);
  std::set<std::string> out{plugin.type, made.type, ipam_type_of(made)};
  std::erase_if(out, [](const std::string& type) { return type.empty(); });
  return out;
}

std::set<std::string> types_of(const cni::NetworkList& list) {
  std::set<std::string> out;
  for (const cni::PluginConf& plugin : list.plugins) out.merge(types_of(plugin));
  return out;
}

Names users_of(const Node& node, std::string_view type) {
  Names out;
  for (const cni::NetworkList& list : node.networks.lists) {
    if (types_of(list).contains(std::string(type))) out.push_back(list.name);
  }
  return out;
}

const PluginFile* broken_of(const Node& node, const std::set<std::string>& types) {
  const auto found = std::ranges::find_if(node.programs, [&](const PluginFile& one) {
    return types.contains(one.type) && one.is_broken();
  });
  return found == node.programs.end() ? nullptr : &*found;
}

std::vector<PluginFile> programs_of(const Node& node, const RuntimeOptions& options) {
  std::vector<PluginFile> out;
  const auto add = [&](const std::set<std::string>& types) {
    for (const std::string& type : types) {
      const bool known = find_by(out, &PluginFile::type, type) != nullptr;
      if (!known && type.find('/') == std::string::npos) out.push_back(program_of(type, options));
    }
  };
  for (const NetworkList& list : node.networks.lists) {
    for (const PluginConf& plugin : list.plugins) add(types_of(plugin));
  }
  for (const AttachmentState& one : node.attachments) {
    if (!is_of_containerd(one.types)) add(one.types);
  }
  return out;
}

std::vector<StatusError> complaints_of(const Node& node, RuntimeOptions options) {
  options.pass_stderr = {};  // what STATUS notes is a finding of another check
  std::vector<StatusError> out;
  for (const NetworkList& list : node.networks.lists) {
    if (is_locked(node, list.name)) continue;
    for (PluginConf plugin : list.plugins) {
      if (!know_status(node, types_of(plugin))) continue;
      plugin.conf->erase(cni::kLogKey);  // what is looked at is not written to
      NetworkList one = list;
      one.version = "1.1.0";
      try {
        cni::PluginCaller(options, one).call(plugin, {.command = cni::Command::kStatus});
      } catch (const cni::Error& e) {
        out.push_back({list.name, plugin.type, e});
      }
    }
  }
  return out;
}

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
