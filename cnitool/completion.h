#pragma once

#include <string>
#include <vector>

#include "cnitool/command_table.h"
#include "cnitool/settings.h"

namespace tool {

/// The words that a shell may offer.
struct Completions {
  struct Word {
    std::string text, what;
    bool operator==(const Word&) const = default;
  };
  std::vector<Word> words;
  enum class Files { kNone, kFiles, kDirectories } files = Files::kNone;  ///< and those
};

/// \param words those after the program's name; the last is the one to complete, and may be empty.
/// Networks are completed from the directory of networks, namespaces, containers and networks from
/// what is remembered of attachments, both as options among the words say.
Completions completions(const ProgramInfo& program, const std::vector<std::string>& words,
                        Settings settings);

/// The form that the scripts read: lines of a word, a tab and its description; ":files" or ":dirs"
/// for files.
std::string str(const Completions& completions);

/// The completion script of a shell: "bash", "zsh" or "fish". It asks the program itself
/// (`PROGRAM complete -- WORDS`), so that it knows no command and no option.
/// \throws cni::Error for another shell.
std::string completion_script(const std::string& shell);

}  // namespace tool
