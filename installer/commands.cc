#include "installer/commands.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>
#include <span>
#include <stdexcept>

#include "installer/folder.h"
#include "installer/options.h"
#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "libcni/config/nearest.h"
#include "libcni/daemon/flags.h"
#include "libcni/plugin/invoke.h"
#include "netlink/types/error.h"

namespace installer {

namespace {

using cni::Plugin;
using netlink::cat;
using Plugins = std::span<const Plugin* const>;

constexpr const char* kHelp =
    "patchbay install DIR [OPTION...]    puts this executable into DIR under the name of each "
    "plugin\n"
    "patchbay uninstall DIR [OPTION...]  restores the files that the names had before\n"
    "patchbay verify DIR [OPTION...]     compares: exit status 1 if a name is another program\n\n"
    "  --only NAME,...   these names alone\n"
    "  --skip NAME,...   all but these\n"
    "  --conf FILE       a *.conflist, installed after the plugins and removed before them\n"
    "  --conf-dir DIR    where it goes; default /etc/cni/net.d\n"
    "  --downgrade       install: also over a newer version of patchbay\n"
    "  --watch           install: again whenever another program changes a name, until SIGTERM\n\n"
    "Exit status: 0 done, 1 failed, 2 wrong command line, 3 refused, with nothing changed.\n";

// The names between commas. \throws std::invalid_argument for one that is not in all.
std::vector<std::string> names_in(std::string_view text, const std::vector<std::string>& all) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const auto end = std::min(text.find(','), text.size());
    const std::string name(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (std::ranges::find(all, name) == all.end()) {
      const std::string near = cni::nearest(name, all);
      throw std::invalid_argument(cat("'", name, "' is no name of a plugin",
                                      near.empty() ? "" : cat(" (did you mean ", near, "?)")));
    }
    out.push_back(name);
  }
  return out;
}

std::vector<std::string> all_names(Plugins plugins) {
  std::vector<std::string> out{"patchbay"};
  for (const Plugin* const plugin : plugins) out.emplace_back(plugin->name);
  return out;
}

// Empty: help was asked for. \throws std::invalid_argument.
std::optional<Options> options_of(Plugins plugins, int argc, char** argv) {
  const auto all = all_names(plugins);
  Options out;
  out.names = all;
  const auto keep = [&](const std::string& text, bool are_named) {
    const auto named = names_in(text, all);
    std::erase_if(out.names, [&](const auto& name) {
      return (std::ranges::find(named, name) != named.end()) != are_named;
    });
  };
  const std::vector<cni::Flag> flags{
      {"only", "names", "", [&](const auto& text) { keep(text, true); }},
      {"skip", "names", "", [&](const auto& text) { keep(text, false); }},
      {"conf", out.conf, ""},
      {"conf-dir", out.conf_dir, ""},
      {"downgrade", out.may_downgrade, ""},
      {"watch", out.watches, ""}};
  std::vector<std::string> folders;
  const std::span<const char* const> arguments{argv + 1, static_cast<std::size_t>(argc - 1)};
  if (cni::read_flags(argv[0], flags, arguments, &folders)) return std::nullopt;
  if (folders.size() != 1 || folders[0].empty()) {
    throw std::invalid_argument(
        "one folder is expected: `cnitool runtimes` prints where the runtimes of a node look");
  }
  out.dir = folders[0];
  if (out.names.empty()) throw std::invalid_argument("no name is left to install");
  return out;
}

int run(Status (*command)(const Options&), Plugins plugins, int argc, char** argv) try {
  ::signal(SIGPIPE, SIG_IGN);
  const auto options = options_of(plugins, argc, argv);
  if (!options) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  return static_cast<int>(command(*options));
} catch (const std::invalid_argument& e) {
  cni::note(cat("patchbay ", argv[0], ": ", e.what(), "; `patchbay ", argv[0],
                " --help` lists the options"));
  return static_cast<int>(Status::kUsage);
} catch (const cni::Error& e) {
  cni::note(cat("patchbay ", argv[0], ": ", e.what()));
  return static_cast<int>(e.code() == cni::Code::kInvalidConfig ? Status::kRefused
                                                                : Status::kFailed);
} catch (const std::exception& e) {
  cni::note(cat("patchbay ", argv[0], ": ", e.what()));
  return static_cast<int>(Status::kFailed);
}

Status install_or_watch(const Options& options) {
  return options.watches ? watch(options) : install(options);
}

}  // namespace

const std::array<cni::SuiteCommand, 3> kCommands{{
    {"install", "puts it into a folder of plugins",
     [](Plugins plugins, int argc, char** argv) {
       return run(install_or_watch, plugins, argc, argv);
     }},
    {"uninstall", "restores the earlier files of a folder",
     [](Plugins plugins, int argc, char** argv) { return run(uninstall, plugins, argc, argv); }},
    {"verify", "compares a folder with it",
     [](Plugins plugins, int argc, char** argv) { return run(verify, plugins, argc, argv); }},
}};

}  // namespace installer
