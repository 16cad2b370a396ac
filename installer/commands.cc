#include "installer/commands.h"

#include <getopt.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>

#include "installer/folder.h"
#include "installer/options.h"
#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "libcni/config/nearest.h"
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

struct UsageError {
  std::string what;
};

enum : int { kOnly = 256, kSkip, kConf, kConfDir, kDowngrade, kWatch, kHelpOption };
const option kOptions[] = {{"only", required_argument, nullptr, kOnly},
                           {"skip", required_argument, nullptr, kSkip},
                           {"conf", required_argument, nullptr, kConf},
                           {"conf-dir", required_argument, nullptr, kConfDir},
                           {"downgrade", no_argument, nullptr, kDowngrade},
                           {"watch", no_argument, nullptr, kWatch},
                           {"help", no_argument, nullptr, kHelpOption},
                           {nullptr, 0, nullptr, 0}};

// The names between commas. \throws UsageError for what is no name of all.
std::vector<std::string> names_in(std::string_view text, const std::vector<std::string>& all) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const auto end = std::min(text.find(','), text.size());
    const std::string name(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (std::find(all.begin(), all.end(), name) == all.end()) {
      const std::string near = cni::nearest(name, all);
      throw UsageError{cat("'", name, "' is no name of a plugin",
                           near.empty() ? "" : cat(" (did you mean ", near, "?)"))};
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

bool has(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// False: help was asked for.
bool read_option(int code, Options& into, const std::vector<std::string>& all) {
  const std::string value = optarg == nullptr ? "" : optarg;
  switch (code) {
    case kOnly: {
      const auto only = names_in(value, all);
      std::erase_if(into.names, [&](const auto& name) { return !has(only, name); });
      return true;
    }
    case kSkip: {
      const auto skip = names_in(value, all);
      std::erase_if(into.names, [&](const auto& name) { return has(skip, name); });
      return true;
    }
    case kConf:
      into.conf = value;
      return true;
    case kConfDir:
      into.conf_dir = value;
      return true;
    case kDowngrade:
      return into.may_downgrade = true;
    case kWatch:
      return into.watches = true;
    case kHelpOption:
      return false;
    default:
      throw UsageError{"`patchbay install --help` lists the options"};
  }
}

// Nothing: help was asked for.
std::optional<Options> options_of(Plugins plugins, int argc, char** argv) {
  const auto all = all_names(plugins);
  Options out;
  out.names = all;
  for (int code = 0; (code = ::getopt_long(argc, argv, "", kOptions, nullptr)) != -1;) {
    if (!read_option(code, out, all)) return std::nullopt;
  }
  if (argc - optind != 1 || *argv[optind] == '\0') {
    throw UsageError{
        "one folder is expected: `cnitool runtimes` prints where the runtimes of a node look"};
  }
  out.dir = argv[optind];
  if (out.names.empty()) throw UsageError{"no name is left to install"};
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
} catch (const UsageError& e) {
  cni::note(cat("patchbay ", argv[0], ": ", e.what));
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
