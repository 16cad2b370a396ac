#include "cnitool/completion.h"

#include <algorithm>
#include <set>

#include "cnitool/cached.h"
#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/runtime/cache.h"
#include "libcni/runtime/conflist.h"
#include "plugins/state/blocks.h"

namespace tool {

namespace {

using cni::cat;
using Files = Completions::Files;

/// The words before the last one, as options and arguments.
struct Line {
  const CommandInfo* command = nullptr;
  std::vector<std::string> positionals;
  const Argument* pending = nullptr;  // an option whose value is the last word
};

const Argument* find(const std::vector<Argument>& options, const std::string& name) {
  const auto found = std::ranges::find_if(options, [&name](const Argument& one) {
    return std::ranges::find(one.names, name) != one.names.end();
  });
  return found == options.end() ? nullptr : &*found;
}

const Argument* option_of(const ProgramInfo& program, const Line& line, const std::string& name) {
  const Argument* own = line.command == nullptr ? nullptr : find(line.command->options, name);
  return own != nullptr ? own : find(program.options, name);
}

void set(Settings& settings, const Argument& option, const std::string& value) {
  if (option.names.empty()) return;
  if (option.names[0] == "--conf-dir") settings.conf_dir = value;
  if (option.names[0] == "--cache-dir") settings.cache_dir = value;
}

// Bash makes words of their own of '=' and what is around it.
Line line_of(const ProgramInfo& program, const std::vector<std::string>& words,
             Settings& settings) {
  Line line;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "=") continue;
    if (line.pending != nullptr) {
      set(settings, *line.pending, word);
      line.pending = nullptr;
    } else if (word.starts_with('-') && word.size() > 1) {
      const auto equals = word.find('=');
      const Argument* const option = option_of(program, line, word.substr(0, equals));
      if (option == nullptr || option->value.empty()) continue;
      if (equals == std::string::npos) {
        line.pending = option;
      } else {
        set(settings, *option, word.substr(equals + 1));
      }
    } else if (line.command == nullptr) {
      line.command = program.find(word);
    } else {
      line.positionals.push_back(word);
    }
  }
  return line;
}

std::vector<cni::CachedAttachment> attachments(const Settings& settings) try {
  return cni::Cache(settings.cache_dir).list().attachments;
} catch (const std::exception&) {  // nothing can be said while somebody types
  return {};
}

void add_networks(const Settings& settings, std::set<std::string>& out) {
  try {
    for (const auto& list : cni::load_networks(settings.conf_dir).lists) out.insert(list.name);
  } catch (const std::exception&) {
  }
  for (const auto& one : attachments(settings)) out.insert(one.key.network);
}

// Adds namespaces of the named network's attachments, or all where it may have none yet.
void add_namespaces(const Settings& settings, const Line& line, std::set<std::string>& out) {
  const auto is_named = [&line](const std::string& network) {
    return std::ranges::find(line.positionals, network) != line.positionals.end();
  };
  const auto all = attachments(settings);
  for (const auto& one : all) {
    if (!one.netns.empty() && is_named(one.key.network)) out.insert(one.netns);
  }
  const bool may_be_new = line.command->name == "add" || is_named("add");
  if (!out.empty() && !may_be_new) return;
  for (const auto& one : all) {
    if (!one.netns.empty()) out.insert(one.netns);
  }
  for (const std::string& name : cni::names_in("/run/netns")) out.insert(cat("/run/netns/", name));
}

// Networks are named by their files in the folder of blocks, as those of Multus, too.
void add_blocks(const std::string& name, const Line& line, std::set<std::string>& out) try {
  constexpr const char* kRelease = "release";
  const auto folder = blocks::Folder::find();
  const auto networks = folder ? folder->networks() : std::vector<std::string>();
  if (name == "network") {
    out.insert(networks.begin(), networks.end());
    out.insert(kRelease);
  }
  if (name != "node" || line.positionals.front() != kRelease) return;
  for (const std::string& network : networks) {
    const auto seen = folder->nodes(network);
    if (!seen) continue;
    for (const auto& node : seen->nodes) {
      if (blocks::is_node(node.name)) out.insert(node.name);
    }
  }
  for (const std::string& network : networks) {
    if (const auto held = folder->held(network)) out.erase(held->node);
  }
} catch (const std::exception&) {
}

Files files_for(const std::string& name) {
  const auto has = [&name](std::string_view part) { return name.find(part) != std::string::npos; };
  if (has("dir") || name == "--path") return Files::kDirectories;
  return has("file") || has("out") ? Files::kFiles : Files::kNone;
}

void add_values(const Argument& of, const Line& line, const Settings& settings, Completions& out) {
  const std::string& name = of.names.at(0);
  std::set<std::string> found(of.choices.begin(), of.choices.end());
  if (name == "network" || name == "--network") add_networks(settings, found);
  if (name == "netns" && line.command != nullptr) add_namespaces(settings, line, found);
  if (line.command != nullptr && line.command->name == "blocks") add_blocks(name, line, found);
  const bool is_own = line.command != nullptr && find(line.command->options, name) != nullptr;
  for (const auto& one : attachments(settings)) {
    if (name == "--container-id") found.insert(one.key.container_id);
    const std::string pod = pod_name_of(one);
    const bool takes_both = name == "pod-name" || (name == "--to" && is_own);
    if (takes_both && pod.empty()) found.insert(one.key.container_id);
    const bool takes_names = takes_both || name == "--pod" || (name == "--container-id" && is_own);
    if (takes_names && !pod.empty()) found.insert(pod);
    if (name == "--keep") found.insert(cat(one.key.container_id, ":", one.key.ifname));
  }
  if (name == "--to") found.insert("dns");
  for (const std::string& one : found) out.words.push_back({one, ""});
  if (found.empty()) out.files = files_for(name);
}

void add_names(const std::vector<Argument>& options, Completions& out) {
  for (const Argument& one : options) {
    for (const std::string& name : one.names) {
      if (name.starts_with("--") || one.names.size() == 1) out.words.push_back({name, one.what});
    }
  }
}

void add_positional(const Line& line, const Settings& settings, Completions& out) {
  const auto& known = line.command->positionals;
  std::size_t index = line.positionals.size();
  if (!known.empty() && index >= known.size() && known.back().many) index = known.size() - 1;
  if (index < known.size()) add_values(known[index], line, settings, out);
}

void add_all(const ProgramInfo& program, const Line& line, const std::string& word,
             Completions& out) {
  if (!word.starts_with('-')) {
    for (const CommandInfo& one : program.commands) out.words.push_back({one.name, one.what});
    return;
  }
  if (line.command != nullptr) add_names(line.command->options, out);
  Completions general;
  add_names(program.options, general);
  for (auto& one : general.words) {
    const auto same = [&one](const auto& other) { return other.text == one.text; };
    if (std::ranges::none_of(out.words, same)) out.words.push_back(one);
  }
}

}  // namespace

Completions completions(const ProgramInfo& program, const std::vector<std::string>& words,
                        Settings settings) {
  Completions out;
  const Line line = line_of(program, words, settings);
  use_runtime(settings);
  std::string word = words.empty() || words.back() == "=" ? "" : words.back();
  const auto equals = word.starts_with("--") ? word.find('=') : std::string::npos;
  const Argument* of = line.pending;
  std::string before;
  if (of == nullptr && equals != std::string::npos) {
    of = option_of(program, line, word.substr(0, equals));
    before = word.substr(0, equals + 1);
    if (of == nullptr) return out;
  }
  if (of != nullptr) {
    add_values(*of, line, settings, out);
  } else if (word.starts_with('-') || line.command == nullptr) {
    add_all(program, line, word, out);
  } else {
    add_positional(line, settings, out);
  }
  for (auto& one : out.words) one.text = before + one.text;
  std::erase_if(out.words, [&word](const auto& one) { return !one.text.starts_with(word); });
  return out;
}

std::string str(const Completions& completions) {
  std::string out;
  for (const auto& [text, what] : completions.words) out += cat(text, "\t", what, "\n");
  if (completions.files == Files::kFiles) out += ":files\n";
  if (completions.files == Files::kDirectories) out += ":dirs\n";
  return out;
}

}  // namespace tool
