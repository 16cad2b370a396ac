#include "cnitool/commands.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "cnitool/command_line.h"
#include "cnitool/probe/target.h"
#include "libcni/plugin/plugin.h"

namespace tool {

namespace {

constexpr const char* kEnvironment = R"(Environment:
  NETCONFPATH, CNI_PATH, CNI_IFNAME, CNI_ARGS, CAP_ARGS
                              as --conf-dir, --path, --ifname, --args, --cap-args
  TRACEPARENT and all others  are passed on to the plugins
  PATCHBAY_LOG                a file, or stderr: one line of JSON for each call
  NO_COLOR                    no colours on a terminal

A network is a file of --conf-dir, a namespace a path like /run/netns/NAME. The container is named
after the namespace's path unless --container-id names it. What an add was given is remembered, so
that del and check need not be told again.)";

// An unset variable of a script is not all pods, nor the current directory.
CLI::Option* refuse_empty(CLI::Option* option, const char* expected) {
  return option->check([expected](const std::string& text) {
    return text.empty() ? std::string(expected) : std::string();
  });
}

void add_options(CLI::App& app, CommandLine& line) {
  Settings& settings = line.settings;
  app.option_defaults()->group(kAttachmentOptions);
  app.add_option("-i,--ifname", settings.ifname, "name of the container interface")
      ->capture_default_str();
  refuse_empty(app.add_option("--container-id", settings.container_id, "container ID"),
               "expected an ID");
  app.add_option("--args", settings.args, "CNI_ARGS: KEY=VALUE;KEY=VALUE");
  app.add_option("--cap-args", settings.capabilities, "capability arguments, a JSON object");
  app.option_defaults()->group(kCommonOptions);
  app.add_option("--conf-dir", settings.conf_dir,
                 "directory of networks; without it that of the node's runtime");
  app.add_option(
      "--path", settings.path,
      "directories of plugins, separated by ':'; without it those of the node's runtime");
  app.add_option("--cache-dir", settings.cache_dir, "directory of the results cache")
      ->capture_default_str();
  app.add_option("--timeout", settings.limit,
                 "time limit for each plugin, in seconds; 0 is unlimited")
      ->capture_default_str();
  app.add_flag("--json", line.json, "print JSON on stdout, errors included");
  app.option_defaults()->group("Options");
}

CLI::App* add_command(CLI::App& app, CommandLine& line, const char* name, const char* what) {
  CLI::App* const command = app.add_subcommand(name, what);
  command->callback([&line, name] { line.command = name; });
  command->footer([command] { return inherited_options(*command); });
  return command;
}

CLI::Option* add_network(CLI::App& command, CommandLine& line) {
  auto* const out = command.add_option("network", line.operation.network, "name of the network");
  return refuse_empty(out, "expected the name of a network")->required();
}

CLI::Option* add_netns(CLI::App& command, CommandLine& line) {
  auto* const out =
      command.add_option("netns", line.operation.netns, "path of the network namespace");
  return refuse_empty(out, "expected the path of a network namespace");
}

CLI::Option* add_pod(CLI::App& command, CommandLine& line) {
  auto* const out = command.add_option("--pod", line.pod,
                                       "only the Kubernetes pod of this name: [NAMESPACE/]NAME");
  return refuse_empty(out, "expected [NAMESPACE/]NAME");
}

void add_selection(CLI::App& command, CommandLine& line) {
  CLI::Option* const id =
      command.add_option("--container-id", line.settings.container_id,
                         "only this pod: container ID, beginning of one, or [NAMESPACE/]NAME");
  refuse_empty(id, "expected a container ID, its beginning, or [NAMESPACE/]NAME");
  add_pod(command, line)->excludes(id);
}

void add_keep(CLI::App& command, CommandLine& line) {
  command.add_option("--keep", line.keep, "attachment to keep, as CONTAINER[:IFNAME]; repeatable")
      ->allow_extra_args(false);
  command.add_option("--keep-json", line.keep_json,
                     R"(attachments to keep, as [{"containerID": "c", "ifname": "eth0"}])");
  command.add_flag("--keep-alive", line.operation.keep_alive,
                   "remove only what belongs to pods that are seen dead");
  command.add_flag("-y,--yes", line.yes, "detach pods that are alive, without a question");
}

void add_verbs(CLI::App& app, CommandLine& line) {
  const struct {
    const char *name, *what;
    bool needs_netns;
  } verbs[] = {{"add", "attach a network namespace to a network", true},
               {"del", "detach a network namespace from a network", true},
               {"check", "check that the attachment is as ADD left it", true},
               {"gc", "remove all attachments of a network except those to keep", false},
               {"status", "check that the plugins of a network are ready", false}};
  for (const auto& [name, what, needs_netns] : verbs) {
    CLI::App& command = *add_command(app, line, name, what);
    add_network(command, line)->required(name != std::string_view("gc"));
    add_netns(command, line)->required(needs_netns)->group(needs_netns ? "Positionals" : "");
    if (name == std::string_view("gc")) {
      add_keep(command, line);
      command.add_flag("--dry-run", line.operation.dry_run,
                       "only report what would be removed; without a network, of all");
    }
    if (name == std::string_view("add")) {
      command.add_flag("--no-undo", line.no_undo, "do not roll back a failed add");
    }
  }
}

void add_repair(CLI::App& app, CommandLine& line) {
  CLI::App& repair =
      *add_command(app, line, "repair", "restore what other programs removed from the node");
  repair.add_option("network", line.operation.network, "only this network");
  add_selection(repair, line);
  repair.add_flag("--dry-run", line.dry_run, "only report problems");

  CLI::App& migrate = *add_command(
      app, line, "migrate", "migrate attachments of the reference plugins to patchbay, or back");
  migrate.add_option("network", line.operation.network, "only this network");
  add_selection(migrate, line);
  migrate.add_flag("--back", line.back, "migrate to the reference plugins");
  migrate.add_flag("--dry-run", line.dry_run, "only report what would change");
}

// The flag is what they need, as of a command that sends no probes without it; null: nothing.
void add_rate(CLI::App& command, CommandLine& line, CLI::Option* flag = nullptr) {
  for (CLI::Option* const one :
       {command
            .add_option("--rate", line.probe.per_second, "probes a second, of all pods together")
            ->check(CLI::Range(1, 100'000)),
        command.add_option("--time-limit", line.probe.limit, "seconds in which probes are sent")
            ->check(CLI::Range(1, 3600))}) {
    one->capture_default_str();
    if (flag != nullptr) one->needs(flag);
  }
}

void add_doctor(CLI::App& app, CommandLine& line) {
  CLI::App& doctor = *add_command(app, line, "doctor",
                                  "find problems of this node's pod networks, and print remedies");
  doctor.add_flag("-q,--quiet", line.quiet, "print findings alone");
  add_rate(doctor, line,
           doctor.add_flag("--probe", line.scope.probe, "send packets as the pods would, too"));
  auto* const kubernetes =
      doctor.add_flag("--kubernetes", line.scope.kubernetes,
                      "check what Kubernetes needs; networks and plugins are the runtime's");
  doctor
      .add_option("--node-json", line.scope.node_json,
                  "a file with `kubectl get node NAME -o json`, or -")
      ->needs(kubernetes);
  doctor.add_option("--nodes", line.scope.nodes,
                    "check routes to other nodes: a file with `kubectl get nodes -o json`, or -");
  add_selection(doctor, line);
}

void add_probe(CLI::App& app, CommandLine& line) {
  CLI::App& command =
      *add_command(app, line, "probe",
                   "send packets as the pods would, and find what takes those that are lost");
  auto* const pod =
      command.add_option("pod-name", line.probe.pod,
                         "only this pod: [NAMESPACE/]NAME, container ID, or beginning of one");
  refuse_empty(pod, "expected a pod");
  add_selection(command, line);
  pod->excludes("--pod")->excludes("--container-id");
  refuse_empty(
      command.add_option("--network", line.operation.network, "only the pods of this network"),
      "expected the name of a network");
  auto* const to = command.add_option(
      "--to", line.probe.to,
      "only to this: POD, dns, ADDRESS for an echo, or ADDRESS:PORT[/udp] for a connection");
  to->check(probe::refusal_of_target);
  command
      .add_option("--from", line.probe.from,
                  "only what comes in from this address of a host beyond the node")
      ->check(probe::refusal_of_source)
      ->excludes(to);
  add_rate(command, line);
  auto* const dry = command.add_flag("--dry-run", line.probe.dry_run, "only print the probes");
  auto* const watch = command.add_flag("--watch", line.probe.watch,
                                       "probe again and again, and print changes, until Ctrl-C");
  watch->excludes(dry);
  command
      .add_option("--interval", line.probe.interval,
                  "seconds from one round of --watch to the next")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str()
      ->needs(watch);
  command.add_flag("-q,--quiet", line.quiet, "print what is wrong alone");
}

void add_runtimes(CLI::App& app, CommandLine& line) {
  CLI::App& runtimes = *add_command(app, line, "runtimes",
                                    "list the container runtimes, and where they look for plugins");
  runtimes.add_option("name", line.runtimes.name, "k3s, rke2, containerd, crio or podman")
      ->check(CLI::IsMember(
          std::vector<std::string>(std::begin(kRuntimeNames), std::end(kRuntimeNames)),
          CLI::ignore_case));
  runtimes.add_flag("--plugin-dir", line.runtimes.plugin_dir,
                    "print the folder for `patchbay install` alone");
}

void add_blocks(CLI::App& app, CommandLine& line) {
  CLI::App& command = *add_command(
      app, line, "blocks", "list which node has which block of a pool, and release those of one");
  command.add_option("network", line.operation.network,
                     "only this network; or the word release, which frees the blocks of a node");
  command.add_option("node", line.node, "after release: the node, which was removed for good");
  command.add_flag("--force", line.force,
                   "release also blocks of a node whose Node object exists, and those of another "
                   "machine with the name of this node");
}

void add_graph(CLI::App& app, CommandLine& line) {
  CLI::App& graph = *add_command(app, line, "graph", "draw the networks of the node");
  add_selection(graph, line);
  graph.add_option("--format", line.graph.format, "text, dot or svg")
      ->check(CLI::IsMember({"text", "dot", "svg"}))
      ->capture_default_str();
  graph.add_option("--output", line.graph.file, "output file; default stdout");
  add_rate(
      graph, line,
      graph.add_flag("--probe", line.graph.probe,
                     "send packets as the pods would, and mark the ways that they do not pass"));
}

void add_views(CLI::App& app, CommandLine& line) {
  CLI::App& list = *add_command(app, line, "list", "list all attachments in the cache");
  list.add_option("network", line.operation.network, "only this network");
  add_selection(list, line);
  list.add_option("--address", line.listed.address, "only that with this IP address")
      ->check([](const std::string& text) {
        return netlink::Ip::parse(text) ? std::string() : cat("expected an IP address: ", text);
      });
  list.add_option("--host-port", line.listed.host_port, "only those with this port of the node")
      ->check(CLI::Range(1, 65535));
  add_runtimes(app, line);
  add_command(app, line, "networks", "list all networks, with plugins, subnets and use");
  add_blocks(app, line);

  add_doctor(app, line);
  add_probe(app, line);

  CLI::App& show = *add_command(app, line, "show", "show one attachment: config and result");
  add_network(show, line);
  add_netns(show, line);
  add_pod(show, line);

  add_graph(app, line);

  CLI::App& trace = *add_command(
      app, line, "trace", "run an operation, and show time, input and output of each plugin");
  trace.add_option("operation", line.operation.verb, "add, del, check, gc or status")
      ->required()
      ->check(CLI::IsMember({"add", "del", "check", "gc", "status"}));
  add_network(trace, line);
  add_netns(trace, line);
  trace.add_flag("--no-undo", line.no_undo, "do not roll back a failed add");
  add_keep(trace, line);
}

void add_validate(CLI::App& app, CommandLine& line) {
  CLI::App& command =
      *add_command(app, line, "validate", "report all errors of networks, with line and column");
  command
      .add_option("file", line.validation.files,
                  "networks, directories of networks, or - for stdin; default: --conf-dir")
      ->option_text("FILE...");
  command.add_flag("--strict", line.validation.strict, "fail also for warnings");
  command.add_flag("--one-pod", line.validation.one_pod,
                   "one pod is to have all of the networks: warn of a second default route");
}

void add_preset(CLI::App& app, CommandLine& line) {
  PresetOptions& preset = line.preset;
  CLI::App& command =
      *add_command(app, line, "preset", "write the network of a Kubernetes node, for its runtime");
  command.add_option("name", preset.name, "kubenet, kind, flannel or containerd-template")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kPresets), std::end(kPresets))));
  command.add_option("--pod-cidr", preset.pod_cidrs,
                     "pod CIDR of the node, or one of each family: CIDR[,CIDR]");
  command.add_option("--subnet-env", preset.subnet_env, "flanneld's file with the pod CIDR");
  command.add_option("--node-json", preset.node_json,
                     "output of kubectl get node NAME -o json: a file, or - for stdin");
  command.add_option("--mtu", preset.mtu,
                     "MTU in bytes, or auto: that of the smallest uplink. Without it auto, or "
                     "flanneld's");
  command.add_option("--overhead", preset.overhead,
                     "bytes that --mtu auto subtracts, such as 50 for VXLAN");
  command.add_option("--masquerade-except", preset.except,
                     "masquerade traffic from pods except to these networks: CIDR[,CIDR...]");
  command.add_flag("--devices", preset.devices,
                   "with the plugin devices, for pods that ask for devices of patchbay-agent");
  command.add_option("--cni-version", preset.version, "1.1.0 needs containerd 2 or CRI-O")
      ->check(CLI::IsMember({"0.4.0", "1.0.0", "1.1.0"}))
      ->capture_default_str();
  command.add_option("-o,--output", preset.file, "file to replace; default stdout");
}

void add_documents(CLI::App& app, CommandLine& line) {
  add_command(app, line, "completion", "print a shell's completion script")
      ->add_option("shell", line.subject, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  add_command(app, line, "version", "print the version");
  CLI::App& help = *add_command(app, line, "help", "print the help of a command");
  std::vector<std::string> names;
  for (const CLI::App* one : app.get_subcommands({})) names.push_back(one->get_name());
  help.add_option("command", line.subject, "name of the command")->check(CLI::IsMember(names));
}

// GC of all networks would detach more than one means.
void require_dry_run(const Operation& operation, bool keeps) {
  if (!operation.dry_run) {
    throw cni::Error(cni::Code::kInvalidEnvironment, "gc: expected a network",
                     "only gc --dry-run is for all networks");
  }
  if (keeps) {
    throw cni::Error(cni::Code::kInvalidEnvironment, "gc --dry-run: --keep needs a network");
  }
}

}  // namespace

void define(CLI::App& app, CommandLine& line) {
  app.set_version_flag("--version", cat("cnitool ", version_text()));
  app.require_subcommand(0, 1);  // none is said in parse(), in better words
  app.fallthrough();             // options of all commands may stand after the command
  add_options(app, line);
  add_verbs(app, line);
  add_repair(app, line);
  add_views(app, line);
  add_validate(app, line);
  add_preset(app, line);
  add_documents(app, line);
  app.footer(kEnvironment);
}

void complete(CommandLine& line) {
  Operation& operation = line.operation;
  if (operation.verb.empty()) operation.verb = line.command;
  line.settings.undo = !line.no_undo;
  for (const std::string& one : line.keep) {
    operation.keep_known.push_back(attachment_from(one));
  }
  operation.is_agreed = line.yes;
  operation.can_ask = !line.json && ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
  if (line.keep_json) {  // an empty text is no list: a script had nothing to say
    for (auto& one : attachments_from(*line.keep_json)) operation.keep.push_back(one);
  }
  if (line.scope.node_json == "-" && line.scope.nodes == "-") {
    throw cni::Error(cni::Code::kInvalidEnvironment,
                     "doctor: stdin can be only one of --node-json and --nodes");
  }
  if (!line.node.empty() && operation.network != "release") {
    throw cni::Error(cni::Code::kInvalidEnvironment,
                     cat("blocks: expected one network, or release NODE: ", operation.network));
  }
  const bool whole_network = operation.verb == "gc" || operation.verb == "status";
  const bool named = !line.settings.container_id.empty() || !line.pod.empty();
  if (operation.verb == "gc" && named) {
    throw cni::Error(cni::Code::kInvalidEnvironment,
                     "gc: --container-id selects nothing: all attachments but those to keep go",
                     "`cnitool del` removes the attachment of a container");
  }
  if (operation.verb == "gc" && operation.network.empty()) {
    require_dry_run(operation, !line.keep.empty());
  }
  const bool needs_netns =
      line.command == "trace" ? !whole_network : line.command == "show" && !named;
  if (operation.netns.empty() && needs_netns) {
    throw cni::Error(cni::Code::kInvalidEnvironment,
                     cat(operation.verb, ": expected the path of a network namespace"));
  }
}

std::string version_text() { return cat("patchbay ", cni::build_text()); }

}  // namespace tool
