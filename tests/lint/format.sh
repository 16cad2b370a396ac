#!/bin/sh
# Every source file is as clang-format leaves it. `clang-format -i FILE` puts it right.
cd "$(dirname "$0")/../.." || exit 1
command -v clang-format >/dev/null || { echo "clang-format is not installed" >&2; exit 77; }
find cnitool libcni netlink plugins musl tests \( -name '*.h' -o -name '*.cc' \) -print0 |
  xargs -0 clang-format --dry-run -Werror
