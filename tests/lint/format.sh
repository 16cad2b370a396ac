#!/bin/sh
# Every source file is as clang-format leaves it. `clang-format -i FILE` puts it right.
cd "$(dirname "$0")/../.." || exit 1
command -v clang-format >/dev/null || { echo "clang-format is not installed" >&2; exit 77; }
version=$(clang-format --version | grep -o 'version [0-9]*')
[ "$version" = "version 14" ] || { echo "clang-format 14 decides; other versions break lines elsewhere: $version"; exit 77; }
find cnitool installer kubernetes libcni netlink plugins tests \( -name '*.h' -o -name '*.cc' \) -print0 |
  xargs -0 clang-format --dry-run -Werror
