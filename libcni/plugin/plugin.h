#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "libcni/common/undo.h"
#include "libcni/config/key.h"
#include "libcni/config/result.h"
#include "libcni/plugin/collect.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"

namespace cni {

/// A command of a plugin's executable beside its verbs: `dhcp daemon`.
struct Subcommand {
  std::string_view name;
  const char* description;  ///< for --help, without full stop
  /// main() of it, with argv[0] its name. An exit status.
  int (*run)(int argc, char** argv);
};

/// A function per verb, in the order in which plugins name them; one left out succeeds and does
/// nothing, as in the reference.
struct Verbs {
  Result (*add)(const Request&, Undo&) = nullptr;
  void (*del)(const Request&) = nullptr;
  void (*check)(const Request&) = nullptr;
  /// Called if the runtime says which attachments are valid.
  void (*gc)(const Request&, Collect&) = nullptr;
  void (*status)(const Request&) = nullptr;
  /// For --validate: throws what ADD would throw for its input alone, and looks at nothing else.
  void (*validate)(const Request&) = nullptr;
  /// Restores the node's objects of an attachment to what ADD made, leases of the IPAM plugin among
  /// them; touches nothing in the pod. Returns the result of ADD as it is now. Null: the plugin
  /// does not have the verb.
  Result (*repair)(const Request&, Repair&) = nullptr;
  /// REPAIR where the pod or its interface does not exist: the node gets back what ADD took from
  /// it. Left out, the verb is unknown.
  void (*reclaim)(const Request&, Repair&) = nullptr;
  /// Gives the objects of an attachment the form Repair::to_reference() says, without a moment
  /// in which one of them is missing. Null: both forms are the same.
  void (*migrate)(const Request&, Repair&) = nullptr;
};

struct Plugin {
  std::string_view name;
  Verbs verbs = {};
  const Manual* manual = nullptr;
  /// The reference plugin's words before its JSON decoder's complaint, here those of most; ours
  /// follows them, too. Empty: it has none.
  std::string_view loading = "failed to load netconf";
  std::span<const Subcommand> subcommands = {};
  /// Of a plugin of another project: its version, "v1.2.0", and where its documentation is. Empty:
  /// not stated. Plugins of suite_main() that state none have those of patchbay.
  std::string_view version = {};
  std::string_view documentation = {};
};

/// Environment, stdin and stdout of one run: those of the process in plugin_main(), others in
/// tests. The caller keeps the ownership of both file descriptors. Notes go to the stderr of the
/// process.
struct Invocation {
  Env env;
  int in = 0, out = 1;
};

/// Runs the verb that the environment names and writes its outcome: a result, a version object, an
/// error object, or nothing. Returns the exit status, 0 or 1. ADD is committed after its result is
/// written; a failure before that rolls ADD back.
int run(const Plugin& plugin, const Invocation& invocation) noexcept;

/// The variable that says to a plugin that it is run as an IPAM plugin: one that is none refuses,
/// so that copies and wrappers of a plugin cannot run each other without end.
inline constexpr const char* kIpamCall = "PATCHBAY_IPAM_CALL";

bool is_ipam(const Plugin& plugin) noexcept;
/// \throws Error(kInvalidConfig) where it is no IPAM plugin.
void require_ipam(const Plugin& plugin);

/// Runs GC. Gives what would be removed if the config asks for a look only, else nothing.
/// \throws Error where the list of valid attachments is malformed, or what the verb throws.
std::vector<Leftover> collect(const Plugin& plugin, const Request& request);

/// Runs ADD, after a line on stderr about each key that is probably misspelt.
Result add(const Plugin& plugin, const Request& request, Undo& undo);

/// Runs REPAIR, RECLAIM or MIGRATE. The result is that of REPAIR. \throws Error where the plugin
/// does not have the verb, or what the verb throws.
std::optional<Result> run_repair(const Plugin& plugin, const Request& request, Repair& repair);

/// Runs DEL, CHECK, GC or STATUS. \throws what the verb throws.
void dispatch(const Plugin& plugin, const Request& request);

/// Reads a config as ADD would and lets the plugin refuse it, without a namespace and without any
/// change. Returns 1 and writes the error object where ADD would fail, else returns 0. In the
/// object "findings" is all that the table of keys has against the config
/// (libcni/config/complaints.h); with exit status 0 nothing is written where there is none. Of the
/// environment only CNI_ARGS counts.
int validate(const Plugin& plugin, const Invocation& invocation);

/// main() of a plugin. What libraries print to stdout goes to stderr; a closed stdout is an error
/// like another, not a signal. An argument, which no runtime gives, asks for --help, --version,
/// --schema, --keys or --validate, or is a subcommand; exit status 2 where it is another. Without
/// arguments and CNI_COMMAND it says on stderr what it is.
int plugin_main(const Plugin& plugin, int argc, char** argv);

/// The version of this build: "0.2.0".
std::string_view build_version();
/// The same with the commit of its sources, if it was built from git: "0.2.0 (commit
/// 0123456789ab)".
std::string_view build_text();

/// The release of the reference plugins whose keys and verbs this build has.
inline constexpr std::string_view kReferenceLevel = "1.9.1";

}  // namespace cni
