"""The bill of materials of an executable: the libraries that the linker took something from."""

import hashlib
import json
import os
import re
import subprocess

from dist.common import ARCHITECTURE, OUT, PACKAGES, WORK, query, run, staged, version

#: Licences (SPDX) of what may be linked in, by the distribution's source package.
LICENCES = {"glibc": "LGPL-2.1-or-later", "gcc": "GPL-3.0-or-later WITH GCC-exception-3.1", "nlohmann-json3": "MIT",
            "cli11": "BSD-3-Clause", "tomlplusplus": "MIT", "libbpf": "LGPL-2.1-only OR BSD-2-Clause", "elfutils": "GPL-2.0-or-later OR LGPL-3.0-or-later",
            "zlib": "Zlib", "dbus": "AFL-2.1 OR GPL-2.0-or-later", "libzstd": "BSD-3-Clause", "grpc": "Apache-2.0", "protobuf": "BSD-3-Clause",
            "abseil": "Apache-2.0", "c-ares": "MIT", "re2": "BSD-3-Clause"}
#: Libraries that are headers alone, of which a map of the linker knows nothing.
HEADERS = {"patchbay": ["nlohmann-json3-dev"], "cnitool": ["nlohmann-json3-dev", "libcli11-dev", "libtomlplusplus-dev"],
           "patchbay-agent": ["nlohmann-json3-dev", "libcli11-dev"]}


def archives(program):
    """The archives of the distribution that the linker took something from."""
    command = run("ninja", "-C", WORK / "build", "-t", "commands", program).strip().split("\n")
    link = next(line for line in reversed(command) if f" -o bin/{program} " in line)
    link = re.search(r"(?:^|&& )(\S*[cg]\+\+ .*?-o bin/\S+ .*?)(?: &&|$)", link)[1]
    found = WORK / f"{program}.map"
    subprocess.run(f"{link} -Wl,-Map={found} -o {WORK}/{program}.again", shell=True, check=True, cwd=WORK / "build")
    included = found.read_text(errors="replace").split("\nDiscarded input sections")[0]
    return {os.path.realpath(path) for path in re.findall(r"^(/[^\s(]+\.a)\(", included, re.MULTILINE)}


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
    out |= {name: "" for name in HEADERS[program]}
    return {name: query("-W", "-f", "${Version}", name) for name in sorted(out)}


def licence(package):
    source = query("-W", "-f", "${source:Package}", package)
    return LICENCES[re.sub(r"^gcc-.*", "gcc", source)]


def bill(program, packages, when):
    """SPDX 2.3: the executable, and what it contains."""
    content = staged(program).read_bytes()
    created = run("date", "-u", "-d", f"@{when}", "+%Y-%m-%dT%H:%M:%SZ").strip()
    own = {"SPDXID": f"SPDXRef-{program}", "name": program, "versionInfo": version(), "downloadLocation": "NOASSERTION",
           "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
           "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()}]}
    parts = [{"SPDXID": f"SPDXRef-{re.sub(r'[^A-Za-z0-9.-]', '-', name)}", "name": name, "versionInfo": number,
              "downloadLocation": "NOASSERTION", "licenseConcluded": licence(name), "licenseDeclared": licence(name),
              "copyrightText": "NOASSERTION"} for name, number in packages.items()]
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": own["SPDXID"]}]
    relations += [{"spdxElementId": own["SPDXID"], "relationshipType": "STATIC_LINK", "relatedSpdxElement": part["SPDXID"]}
                  for part in parts]
    text = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"{program}-{version()}",
            "documentNamespace": f"urn:patchbay:{program}:{version()}:{hashlib.sha256(content).hexdigest()[:16]}",
            "creationInfo": {"created": created, "creators": ["Tool: scripts/package"]}, "packages": [own, *parts],
            "relationships": relations}
    (OUT / f"{program}-linux-{ARCHITECTURE}-v{version()}.spdx.json").write_text(json.dumps(text, indent=2) + "\n")
