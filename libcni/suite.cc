#include "libcni/suite.h"

#include <sys/stat.h>

#include <algorithm>

#include "libcni/log.h"

namespace cni {

namespace {

// Of this process; set once, by suite_main().
constinit std::span<const Plugin* const> linked_plugins;

const Plugin* find(std::string_view type) noexcept {
  const auto found = std::find_if(linked_plugins.begin(), linked_plugins.end(),
                                  [type](const Plugin* plugin) { return plugin->name == type; });
  return found == linked_plugins.end() ? nullptr : *found;
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string usage() {
  std::string names;
  for (const Plugin* plugin : linked_plugins) names += cat(names.empty() ? "" : " ", plugin->name);
  return cat("CNI plugins of patchbay ", build_version(),
             ", each to be called by its own name: ", names);
}

// The results of old versions say less than a plugin knows; a delegate's is no exception.
Result as_printed(Result result, Version version) {
  if (version >= Version::k0_3_0) return result;
  return result_from(to_json(result, version), version);
}

Result run_verb(const Plugin& plugin, const Request& request) {
  if (request.command == Command::kAdd) {
    Undo undo;
    Result result = as_printed(plugin.add(request, undo), request.version);
    undo.commit();  // handed over: it is the caller's to take back
    return result;
  }
  dispatch(plugin, request);
  return {};
}

}  // namespace

int suite_main(std::span<const Plugin* const> plugins, int argc, char** argv) {
  linked_plugins = plugins;
  const std::string_view own = argc > 0 ? base_name(argv[0]) : "";
  if (const Plugin* const plugin = find(own)) return plugin_main(*plugin, argc, argv);
  if (argc > 1) {
    if (const Plugin* const plugin = find(argv[1])) return plugin_main(*plugin, argc - 1, argv + 1);
  }
  note(usage());
  return argc > 1 ? 2 : 0;
}

const Plugin* linked_plugin(std::string_view type, const std::string& file) noexcept {
  const Plugin* const plugin = find(type);
  struct stat there {};
  struct stat here {};
  if (plugin == nullptr || ::stat(file.c_str(), &there) != 0) return nullptr;
  if (::stat("/proc/self/exe", &here) != 0) return nullptr;
  return there.st_dev == here.st_dev && there.st_ino == here.st_ino ? plugin : nullptr;
}

Result call(const Plugin& plugin, const Request& request) {
  CallLog log(plugin.name, request.env);
  log.has_read(request);
  const auto failure = [&](const Error& e) {
    log.finish(request, &e);
    return e;
  };
  try {
    Result result = run_verb(plugin, request);
    log.finish(request, nullptr);
    return result;
  } catch (const Error& e) {
    throw failure(e);
  } catch (const netlink::Error& e) {
    throw failure(Error(code_of(e), e.what()));
  } catch (const std::exception& e) {
    throw failure(Error(Code::kInternal, e.what()));
  }
}

}  // namespace cni
