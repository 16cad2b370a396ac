#include "libcni/plugin/suite.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "libcni/config/names.h"
#include "libcni/config/nearest.h"
#include "libcni/plugin/build_note.h"
#include "libcni/plugin/log.h"
#include "libcni/plugin/manual.h"
#include "libcni/plugin/single.h"
#include "netlink/types/fd.h"

namespace cni {

namespace {

// The plugins of this process; set once, by suite_main() or single_main().
constinit std::span<const Plugin* const> linked_plugins;
// Of single_main(): the names of all plugins of the build.
constinit std::span<const std::string_view> ipam_names, other_names;

const Plugin* find(std::string_view type) noexcept {
  const auto found = std::ranges::find_if(
      linked_plugins, [type](const Plugin* plugin) { return plugin->name == type; });
  return found == linked_plugins.end() ? nullptr : *found;
}

// The name among these that a type is, also with something behind a dot: "bridge.real".
const std::string_view* name_of(std::string_view type,
                                std::span<const std::string_view> among) noexcept {
  const auto found = std::ranges::find(among, type.substr(0, type.find('.')));
  return found == among.end() ? nullptr : &*found;
}

// The plugin that a type or the name of a file stands for; the longest: "x-host-local" is no local.
const Plugin* named(std::string_view name) noexcept {
  const Plugin* out = nullptr;
  for (const Plugin* plugin : linked_plugins) {
    const bool is_longer = out == nullptr || plugin->name.size() > out->name.size();
    if (is_longer && stands_for(name, plugin->name)) out = plugin;
  }
  return out;
}

const Plugin* called_as(std::string_view path) noexcept {
  return named(path.substr(path.rfind('/') + 1));
}

// Whether the file has the note of this executable's build.
bool is_of_same_build(const std::string& file) noexcept {
  if (&patchbay_build_note == nullptr) return false;
  constexpr std::size_t kPage = 4096;  // the linker puts notes behind the headers
  std::array<char, kPage> begin{};
  const netlink::Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const ssize_t size = fd ? ::pread(fd.get(), begin.data(), begin.size(), 0) : 0;
  return size > 0 && ::memmem(begin.data(), static_cast<std::size_t>(size), &patchbay_build_note,
                              sizeof patchbay_build_note) != nullptr;
}

// Whether it is the executable that runs, or another one of the same build.
bool is_own(const std::string& file) noexcept {
  struct stat there {};
  struct stat here {};
  if (::stat(file.c_str(), &there) != 0) return false;
  // The path that execve(2) was given (getauxval(3)), without a read of /proc.
  // NOLINTNEXTLINE(performance-no-int-to-ptr): it is how it says so
  const auto* own = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (own == nullptr || ::stat(own, &here) != 0) return false;
  if (there.st_dev == here.st_dev && there.st_ino == here.st_ino) return true;
  return S_ISREG(there.st_mode) && is_of_same_build(file);
}

std::string names_of_plugins(std::string_view between) {
  std::string names;
  for (const Plugin* plugin : linked_plugins) {
    names += cat(names.empty() ? "" : between, plugin->name);
  }
  return names;
}

constexpr std::string_view kSuite = "CNI plugins of patchbay ";

std::string version_line() { return cat(kSuite, build_version()); }

// What all plugins together are called where they say their version, as in k3s's executable.
constexpr Plugin kPlugins{.name = "plugins"};

bool is_called_by_runtime() { return !lookup(current_environment(), "CNI_COMMAND").empty(); }

// The answer to an option, which a person or a script gives; none where it is no option.
std::optional<std::string> answer_to(std::string_view option,
                                     std::span<const SuiteCommand> commands) {
  if (option == "--list") return names_of_plugins("\n") + "\n";
  if (option != "--help" && option != "-h") return std::nullopt;
  std::string lines;
  for (const auto& [name, help, run] : commands) {
    constexpr std::size_t kColumn = 24;  // of the text
    std::string call = cat("  patchbay ", name);
    call.resize(std::max(call.size() + 1, kColumn + 2), ' ');
    lines += cat(call, help, "\n");
  }
  return cat(version_line(), ", each called by the name of its file or by the first argument\n\n",
             "  patchbay PLUGIN --help  its keys, options and commands\n", lines,
             "  patchbay --list         the plugins, a name a line\n",
             "  patchbay --version      the version\n\n", "plugins: ", names_of_plugins(" "), "\n");
}

// Says to the runtime, if there is one, that it called nothing.
int refuse(std::string_view name, std::span<const SuiteCommand> commands) {
  std::vector<std::string> names;
  for (const SuiteCommand& command : commands) names.emplace_back(command.name);
  for (const Plugin* plugin : linked_plugins) names.emplace_back(plugin->name);
  const std::string near = nearest(name, names);
  const auto what =
      cat("'", name, "' is no plugin", near.empty() ? "" : cat(" (did you mean ", near, "?)"), ": ",
          version_line(), ", each to be called by its own name: ", names_of_plugins(" "));
  note(what);
  if (!is_called_by_runtime()) return 2;
  const nlohmann::ordered_json error{{"cniVersion", str(kNewest)},
                                     {"code", static_cast<unsigned>(Code::kInvalidEnvironment)},
                                     {"msg", what}};
  netlink::write_all(STDOUT_FILENO, error.dump(4), "stdout");
  return 1;
}

// The results of old versions say less than a plugin knows; a delegate's is no exception.
Result as_printed(Result result, Version version) {
  if (version >= Version::k0_3_0) return result;
  return result_from(to_json(result, version), version);
}

Result run_verb(const Plugin& plugin, const Request& request) {
  if (request.command == Command::kAdd) {
    Undo undo;
    Result result = as_printed(add(plugin, request, undo), request.version);
    undo.commit();  // the caller rolls it back from here on
    return result;
  }
  dispatch(plugin, request);
  return {};
}

// Runs fn, a verb, with its line in the log.
template <class Fn>
std::invoke_result_t<Fn> logged_call(const Plugin& plugin, const Request& request, Fn&& fn) {
  CallLog log(plugin, request.env);
  log.has_read(request);
  try {
    auto result = as_error(std::forward<Fn>(fn));
    log.finish(request, nullptr);
    return result;
  } catch (const Error& e) {
    log.finish(request, &e);
    throw;
  }
}

}  // namespace

int suite_main(std::span<const Plugin* const> plugins, std::span<const SuiteCommand> commands,
               int argc, char** argv) try {
  linked_plugins = plugins;
  const std::string_view own = argc > 0 ? argv[0] : "";
  if (const Plugin* const plugin = called_as(own)) return plugin_main(*plugin, argc, argv);
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (const Plugin* const plugin = find(first)) return plugin_main(*plugin, argc - 1, argv + 1);
  for (const SuiteCommand& command : commands) {
    if (first == command.name) return command.run(plugins, argc - 1, argv + 1);
  }
  if (const auto answer = answer_to(first, commands)) {
    netlink::write_all(STDOUT_FILENO, *answer, "stdout");
    return 0;
  }
  if (first == "--version") return note(version_text(kPlugins)), 0;
  if (argc <= 1 && !is_called_by_runtime()) return note(about(kPlugins)), 0;
  return refuse(argc > 1 ? first : own, commands);
} catch (const std::exception& e) {
  note(e.what());
  return 1;
}

int single_main(const Single& single, int argc, char** argv) {
  linked_plugins = single.plugins;
  ipam_names = single.ipam;
  other_names = single.others;
  return plugin_main(*linked_plugins.front(), argc, argv);
}

bool is_of_suite(const Plugin& plugin) noexcept {
  return &plugin == &kPlugins || std::ranges::find(linked_plugins, &plugin) != linked_plugins.end();
}

std::string_view version_of(const Plugin& plugin) noexcept {
  if (!plugin.version.empty() || !is_of_suite(plugin)) return plugin.version;
  return build_version();
}

const Plugin* plugin_named(std::string_view type) noexcept { return named(type); }

const Plugin* own_plugin(std::string_view type, const std::string& file) noexcept {
  const Plugin* const plugin = named(type);
  return plugin != nullptr && is_own(file) ? plugin : nullptr;
}

const Plugin* linked_plugin(std::string_view type, const std::string& file) noexcept {
  const Plugin* const plugin = named(type);
  return plugin != nullptr && is_ipam(*plugin) && is_own(file) ? plugin : nullptr;
}

void require_ipam(std::string_view type, const std::string& file) {
  const Plugin* const plugin = named(type);
  if (plugin == nullptr) {
    if (const auto* const name = name_of(type, other_names)) require_ipam(Plugin{.name = *name});
    return;
  }
  if (is_ipam(*plugin)) return;
  if (plugin->name == type.substr(0, type.find('.')) || is_own(file)) require_ipam(*plugin);
}

bool calls_no_plugin(std::string_view type) noexcept {
  if (name_of(type, ipam_names) != nullptr) return true;
  const Plugin* const plugin = named(type);
  return plugin != nullptr && is_ipam(*plugin) && plugin->name == type.substr(0, type.find('.'));
}

Result call(const Plugin& plugin, const Request& request) {
  return logged_call(plugin, request, [&] { return run_verb(plugin, request); });
}

std::optional<Result> call(const Plugin& plugin, const Request& request, Repair& repair) {
  return logged_call(plugin, request, [&] { return run_repair(plugin, request, repair); });
}

}  // namespace cni
