#include "cnitool/completion.h"
#include "libcni/common/error.h"

namespace tool {

namespace {

// A colon breaks words in bash (COMP_WORDBREAKS): they are put together again for the program, and
// only what follows the last colon is put into the line.
constexpr const char* kBash = R"sh(# Completion for cnitool in bash.
_cnitool() {
  local -a words=()
  local word joined='' line before=''
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ ${#words[@]} -gt 0 && ( $word == : || -n $joined ) ]]; then
      words[-1]+=$word
      if [[ $word == : ]]; then joined=1; else joined=''; fi
    else
      words+=("$word")
    fi
  done
  local current=${words[-1]}
  if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then before=${current%"${current##*:}"}; fi
  if [[ $current == = ]]; then current=''; fi
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :files) compopt -o filenames; mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current") ;;
      :dirs) compopt -o filenames; mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$current") ;;
      *)
        line=${line%%$'\t'*}
        printf -v line %q "${line#"$before"}"
        COMPREPLY+=("$line")
        ;;
    esac
  done < <("${1/#\~/$HOME}" complete -- "${words[@]}" 2>/dev/null)
}
complete -F _cnitool cnitool
)sh";

// clang-format takes what is in it for C++.
// clang-format off
constexpr const char* kZsh = R"sh(#compdef cnitool
# Completion for cnitool in zsh.
_cnitool() {
  local -a found
  local line files
  for line in ${(f)"$("$words[1]" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
    case $line in
      :files) files=files ;;
      :dirs) files=dirs ;;
      *) found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
    esac
  done
  (( $#found )) && _describe -V cnitool found
  [[ $files == files ]] && _files
  [[ $files == dirs ]] && _files -/
  return 0
}
if [[ $funcstack[1] == _cnitool ]]; then
  _cnitool "$@"
else
  compdef _cnitool cnitool
fi
)sh";
// clang-format on

constexpr const char* kFish = R"sh(# Completion for cnitool in fish.
function __cnitool_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in (cnitool complete -- $words[2..-1] 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path (commandline -ct)
            case :dirs
                __fish_complete_directories (commandline -ct)
            case '*'
                echo $line
        end
    end
end
complete -c cnitool -f -a '(__cnitool_complete)'
)sh";

}  // namespace

std::string completion_script(const std::string& shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  throw cni::Error(cni::Code::kInvalidEnvironment,
                   cni::cat("completion: expected bash, zsh or fish: \"", shell, "\""));
}

}  // namespace tool
