#include "cnitool/manual_page.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>

#include "libcni/common/error.h"
#include "netlink/types/fd.h"
#include "plugins/names/state.h"

namespace tool {

namespace {

using cni::cat;

constexpr const char* kExitStatus =
    "0 on success, 1 on a failure: of a plugin, or with validate an error in a network; 2 where "
    "the "
    "command line is wrong.";

struct Path {
  const char *name, *what;
};
constexpr Path kFiles[] = {
    {"/etc/cni/net.d", "the networks: *.conflist are lists of plugins, *.conf and *.json are one"},
    {PATCHBAY_PLUGIN_PATH, "the plugins: folders, with colons between them"},
    {names::kResultsDir,
     "the results cache: parameters and result of every add, for del and check"}};

// Text for troff: no line of it is a request, no character of it an escape.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool begins_line = out.empty() || out.back() == '\n';
    if (begins_line && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string bold(const std::string& text) { return cat("\\fB", roff(text), "\\fR"); }
std::string italic(const std::string& text) { return cat("\\fI", roff(text), "\\fR"); }

std::string heading_of(const Argument& argument, bool positional) {
  if (positional) return italic(upper(argument.names.at(0)));
  std::string out;
  for (const std::string& name : argument.names) out += cat(out.empty() ? "" : ", ", bold(name));
  return argument.value.empty() ? out : cat(out, " ", italic(argument.value));
}

std::string sentence(const std::string& text) {
  if (text.empty()) return text;
  return text.ends_with('.') ? text : text + ".";
}

std::string capital(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string list(const std::vector<Argument>& arguments, bool positional) {
  std::string out;
  for (const Argument& one : arguments) {
    out += cat(".TP\n", heading_of(one, positional), "\n", roff(sentence(one.what)), "\n");
    if (!one.otherwise.empty()) out += cat("The default is ", bold(one.otherwise), ".\n");
  }
  return out;
}

std::string usage(const ProgramInfo& program, const CommandInfo& command) {
  std::string out = cat(bold(program.name), " ", bold(command.name));
  for (const Argument& one : command.positionals) {
    const std::string name = cat(italic(upper(one.names.at(0))), one.many ? "..." : "");
    out += cat(" ", one.required ? name : cat("[", name, "]"));
  }
  for (const Argument& one : command.options) {
    if (one.names.at(0) != "--help") out += cat(" [", heading_of(one, false), "]");
  }
  return out;
}

std::string commands(const ProgramInfo& program) {
  std::string out;
  for (const CommandInfo& one : program.commands) {
    std::vector<Argument> options = one.options;
    std::erase_if(options, [](const Argument& option) { return option.names.at(0) == "--help"; });
    out += cat(".SS ", roff(one.name), "\n", usage(program, one), "\n.PP\n",
               roff(capital(sentence(one.what))), "\n", list(one.positionals, true),
               list(options, false));
  }
  return out;
}

std::string files() {
  std::string out;
  for (const auto& [name, what] : kFiles) {
    out += cat(".TP\n", italic(name), "\n", roff(sentence(what)), "\n");
  }
  return out;
}

}  // namespace

std::string manual_page(const ProgramInfo& program) {
  std::string what = program.what;
  if (what.ends_with('.')) what.pop_back();
  // "Environment:", its lines, an empty one, and what networks and containers are.
  const std::string& footer = program.footer;
  const std::size_t lines = footer.find('\n') + 1,
                    end = std::min(footer.find("\n\n"), footer.size());
  return cat(".TH ", upper(program.name), " 1 \"\" \"", roff(program.version), "\" \"CNI\"\n",
             ".SH NAME\n", roff(program.name), " \\- ", roff(what), "\n", ".SH SYNOPSIS\n",
             bold(program.name), " [", italic("OPTIONS"), "] ", italic("COMMAND"), " [",
             italic("ARGUMENTS"), "]\n.SH DESCRIPTION\n",
             roff(footer.substr(std::min(end + 2, footer.size()))), "\n.SH COMMANDS\n",
             commands(program), ".SH OPTIONS\nOptions can precede or follow the command.\n",
             list(program.options, false), ".SH ENVIRONMENT\n.nf\n",
             roff(footer.substr(lines, end - lines)), "\n.fi\n.SH EXIT STATUS\n", kExitStatus,
             "\n.SH FILES\n", files(), ".SH SEE ALSO\n.BR ip\\-netns (8),\n.BR patchbay (8)\n");
}

void exec_man(const std::string& page) {
  const netlink::Fd file(::memfd_create("manual page", MFD_CLOEXEC));
  const auto size = static_cast<ssize_t>(page.size());
  if (!file || ::write(file.get(), page.data(), page.size()) != size) return;
  if (::lseek(file.get(), 0, SEEK_SET) != 0 || ::dup2(file.get(), STDIN_FILENO) < 0) return;
  ::signal(SIGPIPE, SIG_DFL);
  char name[] = "man";
  char local[] = "-l";
  char standard_input[] = "-";
  char* const words[] = {name, local, standard_input, nullptr};
  ::execv("/usr/bin/man", words);
}

}  // namespace tool
