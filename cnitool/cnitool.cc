#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "cnitool/blocks.h"
#include "cnitool/cached.h"
#include "cnitool/command_line.h"
#include "cnitool/commands.h"
#include "cnitool/completion.h"
#include "cnitool/networks.h"
#include "cnitool/probe/report.h"
#include "cnitool/repair.h"
#include "cnitool/screen.h"
#include "cnitool/trace.h"
#include "libcni/common/undo.h"
#include "libcni/plugin/plugin.h"

// What each command runs, and how its errors are reported.
namespace {

using tool::cat;

constexpr int kUsage = 2;  // the exit status of a wrong command line

constexpr const char* kPurpose = "Calls the plugins of CNI networks from the command line.";

// A descriptor that becomes readable when the user or the system wants an end: the plugin that runs
// is stopped and ADD undone, instead of half a network being left.
int signals_to_stop() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  return ::signalfd(-1, &signals, SFD_CLOEXEC);
}

// For the manual page. Every build gets the same, because its defaults are those of an empty
// environment, and its version has no commit.
void print_command_table() {
  tool::CommandLine line({});
  CLI::App app(kPurpose, "cnitool");
  tool::define(app, line);
  const auto release = cat("patchbay ", cni::build_version());
  std::cout << tool::json_of(tool::program_of(app, release)).dump(1) << '\n';
}

void print_help(const std::string& subject, const cni::Env& env, const tool::Output& output) {
  tool::CommandLine line(env);
  CLI::App app(kPurpose, "cnitool");
  tool::define(app, line);
  output.out << (subject.empty() ? app.help() : app.get_subcommand(subject)->help(app.get_name()));
}

// False: the command is none of those that print what is known of the program itself.
bool print_document(const tool::CommandLine& line, const cni::Env& env,
                    const tool::Output& output) {
  if (line.command == "completion") {
    output.out << tool::completion_script(line.subject);
  } else if (line.command == "help") {
    print_help(line.subject, env, output);
  } else if (line.command == "version") {
    output.out << "cnitool " << tool::version_text() << '\n';
  } else {
    return false;
  }
  return true;
}

// \param pods whether pods of several namespaces may be meant: not where a command changes them.
tool::Selection selection_of(const tool::CommandLine& line, tool::Pods pods) {
  const std::string& name = line.settings.container_id;
  const cni::Cache cache(line.settings.cache_dir);
  tool::Selection out{.network = line.operation.network};
  if (!name.empty()) out.containers = tool::containers_named(name, cache);
  if (!line.pod.empty()) out.containers = tool::containers_of_pod(line.pod, pods, cache);
  return out;
}

// Of a pod that was restarted, the newest.
cni::AttachmentKey shown_key(const tool::CommandLine& line) {
  if (line.pod.empty()) {
    return tool::key_of(line.settings, line.operation.network, line.operation.netns);
  }
  const tool::Selection which = selection_of(line, tool::Pods::kOne);
  cni::AttachmentKey key{which.network, *which.containers.begin(), line.settings.ifname};
  std::time_t newest = 0;
  for (const auto& one : cni::Cache(line.settings.cache_dir).list().attachments) {
    if (!which.has(one.key) || one.key.ifname != key.ifname || one.modified < newest) continue;
    key = one.key;
    newest = one.modified;
  }
  return key;
}

void blocks(const tool::CommandLine& line, const tool::Output& output) {
  if (!line.node.empty()) return tool::release_blocks(line.node, line.force, output);
  tool::print_blocks(line.operation.network, output);
}

// False: the command is none of those that print what exists on the node.
bool print_state(tool::CommandLine& line, const tool::Output& output) {
  if (line.command == "list") {
    line.listed.which = selection_of(line, tool::Pods::kSeveral);
    tool::list(line.listed, line.settings, output);
  } else if (line.command == "networks") {
    tool::networks(line.settings, output);
  } else if (line.command == "blocks") {
    blocks(line, output);
  } else if (line.command == "graph") {
    line.graph.probing = line.probe;
    if (line.graph.probe) line.graph.probing.stop_fd = signals_to_stop();
    tool::graph(line.graph, selection_of(line, tool::Pods::kSeveral), line.settings, output);
  } else if (line.command == "show") {
    tool::show(shown_key(line), line.settings, output);
  } else {
    return false;
  }
  return true;
}

bool probe(tool::CommandLine& line, const tool::Output& output) {
  line.probe.which = selection_of(line, tool::Pods::kSeveral);
  line.probe.is_alive = true;
  line.probe.stop_fd = signals_to_stop();
  return tool::probe::report(line.settings, line.probe, output);
}

bool diagnose(tool::CommandLine& line, const cni::Env& env, const tool::Output& output) {
  const tool::Selection which = selection_of(line, tool::Pods::kSeveral);
  line.probe.which = which;
  if (line.scope.probe) line.probe.stop_fd = signals_to_stop();
  return tool::doctor::diagnose(line.settings, {which, line.scope, line.probe}, env, output);
}

int execute(tool::CommandLine& line, const cni::Env& env, const tool::Output& output) {
  if (print_document(line, env, output)) return 0;
  if (line.command == "preset") {
    tool::preset(line.preset, output);
    return 0;
  }
  if (line.command == "runtimes") {
    tool::list_runtimes(line.runtimes, output);
    return 0;
  }
  const std::string unread = tool::use_runtime(line.settings);
  if (!unread.empty() && !line.scope.kubernetes) {  // where it is a finding
    cni::note(cat(unread, ": going on with the defaults"));
  }
  if (line.command == "validate") {
    if (line.validation.files.empty()) line.validation.files = {line.settings.conf_dir};
    return tool::validate(line.validation, line.settings, env, output) ? 0 : 1;
  }
  const tool::Operation& operation = line.operation;
  const bool migrates = line.command == "migrate";
  if (line.command == "list" || line.command == "probe" || line.command == "repair" || migrates) {
    tool::require_network(line.settings, operation.network);
  }
  if (line.command == "probe") return probe(line, output) ? 0 : 1;
  if (line.command == "doctor") return diagnose(line, env, output) ? 0 : 1;
  if (print_state(line, output)) return 0;
  cni::RuntimeOptions options = tool::runtime_options(line.settings, env);
  options.stop_fd = signals_to_stop();
  if (line.command == "trace") {
    return tool::trace(operation, line.settings, std::move(options), output) ? 0 : 1;
  }
  if (line.command == "repair" || migrates) {
    tool::RepairAim aim{.dry_run = line.dry_run, .conf_dir = line.settings.conf_dir};
    if (migrates) aim.form = line.back ? cni::Form::kReference : cni::Form::kOwn;
    const auto pods = line.dry_run ? tool::Pods::kSeveral : tool::Pods::kOne;
    return tool::repair(selection_of(line, pods), aim, std::move(options), output) ? 0 : 1;
  }
  return tool::operate(operation, line.settings, options, output) ? 0 : 1;
}

// COLUMNS, or what the terminal says; 0: unknown.
std::size_t terminal_width(const cni::Env& env) {
  constexpr std::size_t kMin = 40;
  winsize size{};
  std::size_t out = std::strtoul(std::string(cni::lookup(env, "COLUMNS")).c_str(), nullptr, 10);
  if (out == 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) out = size.ws_col;
  return out == 0 ? 0 : std::max(out, kMin);
}

void report(const cni::Error& error, const std::string& hint, const tool::Output& output) {
  if (output.json) {
    auto doc = tool::json_of(error);
    if (!hint.empty()) doc["hint"] = hint;
    return output.print(doc);
  }
  cni::note(tool::text_of(error));
  if (!hint.empty()) cni::note(cat("hint: ", hint));
}

// False: it is none of the calls of shells ("complete -- WORD...") and of the build.
bool print_for_programs(const std::vector<std::string>& words, const CLI::App& app,
                        const tool::Settings& settings) {
  if (words.size() < 2 || words[0] != "complete") return false;
  if (words[1] == "--table") {
    print_command_table();
  } else if (words[1] == "--") {
    const auto program = tool::program_of(app, tool::version_text());
    std::cout << str(tool::completions(program, {words.begin() + 2, words.end()}, settings));
  } else {
    return false;
  }
  return true;
}

int run(int argc, char** argv) {
  const tool::Screen screen(std::cout);
  const cni::Env env = cni::current_environment();
  tool::CommandLine line(env);
  CLI::App app(kPurpose, "cnitool");
  tool::define(app, line);
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (print_for_programs(words, app, line.settings)) return 0;
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  tool::Output output{.out = std::cout,
                      .json = std::ranges::find(words, "--json") != words.end(),
                      .colours = terminal && !env.contains("NO_COLOR"),
                      .terminal = terminal,
                      .width = terminal ? terminal_width(env) : 0};
  try {
    if (const auto end = tool::parse(app, words)) return *end;
    tool::complete(line);
  } catch (const cni::Error& e) {
    report(e, tool::help_command(app), output);
    return kUsage;
  }
  output.quiet = line.quiet;
  int status = 1;
  try {
    status = cni::as_error([&] {
      if (::signal(SIGPIPE, SIG_IGN) == SIG_ERR) throw netlink::Error("ignore SIGPIPE", errno);
      return execute(line, env, output);
    });
  } catch (const cni::Error& e) {
    report(e, tool::hint_for(e, line.operation, line.settings), output);
  }
  if (!std::cout.flush()) {
    cni::note("write stdout: it is closed or full");
    return 1;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc, argv);
} catch (const std::exception& e) {  // no memory for as much as the command line
  cni::note(cat("cnitool: ", e.what()));
  return 1;
}
