#!/bin/bash
# A packager's way, on a fresh minimal Debian, from sources as a tarball has them: dpkg-buildpackage with what debian/control
# names, and no git. lintian finds no error; the same is then linked with shared libraries; scripts/package makes the rest.
#   scripts/debian --plain bookworm|trixie tests/install/source_package.sh
set -euxo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq -y install --no-install-recommends dpkg-dev lintian >/dev/null
apt-get -qq -y build-dep --no-install-recommends ./ >/dev/null
[ ! -e .git ] && ! command -v git
dpkg-buildpackage -us -uc -b
lintian --allow-root --fail-on error ../patchbay_*.changes
scripts/package

build=$(echo build/package/*/build)
cmake "$build" -DCNI_STATIC_LIBC=OFF -DCNI_STATIC_LIBSTDCXX=OFF -DCNI_STATIC_GRPC=OFF -DCNI_STATIC_CURL=OFF
cmake --build "$build" --target cnitool single_bandwidth single_firewall patchbay-agent
needs() { readelf -d "$build/bin/$1" | grep -o 'NEEDED.*lib[^ .]*'; "$build/bin/$1" --version; }
[[ $(needs cnitool) = *libstdc++*libc* && $(needs bandwidth) = *libbpf* && $(needs firewall) = *libdbus* ]]
[[ $(needs patchbay-agent) = *libgrpc* ]]
[[ $(needs patchbay-agent) = *libcurl* ]]
