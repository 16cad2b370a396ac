#!/bin/bash
# cnitool of a build without eBPF: `probe` and `doctor --probe` say what they do not see, and name the rest.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$PWD/build/without_bpf plugins=${PATCHBAY_BIN:-$PWD/build/ci/bin}
cmake --preset ci -B "$build" -DCNI_BPF=OFF >/dev/null
cmake --build "$build" --target cnitool
mkdir -p "$build/mixed"
ln -sf "$plugins"/* "$build/mixed"
ln -sf "$build/bin/cnitool" "$build/mixed/cnitool"
export PATCHBAY_WITHOUT_BPF=1 PATCHBAY_BIN=$build/mixed
python3 tests/netns/probe_limits_test.py bpf
python3 tests/netns/probe_limits_test.py "doctor says"
