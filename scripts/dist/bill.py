"""Bills of materials of executables: the libraries that the linker took something from.

    python3 -m dist.bill PACKAGE     in scripts/: prints the copyrights of the libraries in a package, for debian/rules
"""

import hashlib
import json
import os
import re
import sys

from dist.common import ARCHITECTURE, OUT, PACKAGES, PROGRAMS, WORK, notices, query, run, staged, version

#: Licences (SPDX) of what may be linked in, by the distribution's source package.
LICENCES = {"glibc": "LGPL-2.1-or-later", "gcc": "GPL-3.0-or-later WITH GCC-exception-3.1", "nlohmann-json3": "MIT",
            "cli11": "BSD-3-Clause", "tomlplusplus": "MIT", "libbpf": "LGPL-2.1-only OR BSD-2-Clause", "elfutils": "GPL-2.0-or-later OR LGPL-3.0-or-later",
            "zlib": "Zlib", "dbus": "AFL-2.1 OR GPL-2.0-or-later", "libzstd": "BSD-3-Clause", "grpc": "Apache-2.0", "protobuf": "BSD-3-Clause",
            "abseil": "Apache-2.0", "c-ares": "MIT", "re2": "BSD-3-Clause", "curl": "curl", "openssl": "Apache-2.0", "libyaml": "MIT"}
OWN_LICENCE = "Apache-2.0"
#: Libraries that are headers alone, of which a map of the linker knows nothing.
HEADERS = {"cnitool": ["nlohmann-json3-dev", "libcli11-dev", "libtomlplusplus-dev"],
           "patchbay-agent": ["nlohmann-json3-dev", "libcli11-dev"]}
#: Sections with something of a program, unlike .comment.
SECTIONS = ("text", "rodata", "data", "bss", "tdata", "tbss", "init_array", "fini_array")


def archives(program):
    """The archives of the distribution that the linker took something from."""
    # What it loaded and then discarded, because no plugin of the executable calls it, is not behind this line.
    kept = (WORK / f"build/bin/{program}.map").read_text(errors="replace").split("\nLinker script and memory map\n")[1]
    sections = rf"^ \.(?:{'|'.join(SECTIONS)})\S*\s+0x[0-9a-f]+\s+0x([0-9a-f]+) (/\S+\.a)\("
    return {os.path.realpath(path) for size, path in re.findall(sections, kept, re.MULTILINE) if int(size, 16)}


def packages_of(program):
    """{package: version} of the distribution that is linked in."""
    out = {}
    for archive in archives(program):
        path = "/" + os.path.relpath(archive, PACKAGES)
        for place in (path, path.replace("/usr/lib/", "/lib/")):
            if owner := query("-S", place):
                out[owner.split(":")[0]] = ""
                break
        else:
            raise SystemExit(f"no package has {archive}")
    out |= {name: "" for name in HEADERS.get(program, ["nlohmann-json3-dev"])}
    return {name: query("-W", "-f", "${Version}", name) for name in sorted(out)}


def packages_in(package):
    """The same of all programs of a Debian package."""
    return {name: number for program in PROGRAMS[package] for name, number in packages_of(program).items()}


def licence(package):
    source = query("-W", "-f", "${source:Package}", package)
    return LICENCES[re.sub(r"^gcc-.*", "gcc", source)]


def part(name, number, **more):
    """One package, as SPDX calls an executable, too."""
    return {"SPDXID": f"SPDXRef-{re.sub(r'[^A-Za-z0-9.-]', '-', name)}", "name": name, "versionInfo": number,
            "downloadLocation": "NOASSERTION", "copyrightText": "NOASSERTION"} | more


def bill(name, linked, when):
    """SPDX 2.3: executables, and what each contains. linked: {executable: {package: version}}."""
    created = run("date", "-u", "-d", f"@{when}", "+%Y-%m-%dT%H:%M:%SZ").strip()
    digests = {program: hashlib.sha256(staged(program).read_bytes()).hexdigest() for program in linked}
    own = [part(program, version(), licenseConcluded=OWN_LICENCE, licenseDeclared=OWN_LICENCE,
                checksums=[{"algorithm": "SHA256", "checksumValue": digest}]) for program, digest in digests.items()]
    libraries = {library: number for packages in linked.values() for library, number in packages.items()}
    parts = {library: part(library, number, licenseConcluded=licence(library), licenseDeclared=licence(library))
             for library, number in sorted(libraries.items())}
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": one["SPDXID"]}
                 for one in own]
    relations += [{"spdxElementId": one["SPDXID"], "relationshipType": "STATIC_LINK", "relatedSpdxElement": parts[library]["SPDXID"]}
                  for one in own for library in linked[one["name"]]]
    digest = hashlib.sha256("".join(digests.values()).encode()).hexdigest()[:16]
    text = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"{name}-{version()}",
            "documentNamespace": f"urn:patchbay:{name}:{version()}:{digest}",
            "creationInfo": {"created": created, "creators": ["Tool: scripts/package"]}, "packages": [*own, *parts.values()],
            "relationships": relations}
    (OUT / f"{name}-linux-{ARCHITECTURE}-v{version()}.spdx.json").write_text(json.dumps(text, indent=2) + "\n")


if __name__ == "__main__":
    print(notices(packages_in(sys.argv[1])), end="")
