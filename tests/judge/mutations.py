#!/usr/bin/env python3
"""Changes one byte of the codec on purpose, again and again, and shows which judge says so. Works on a copy of
the sources below build/mutations, with the debug build. Exit status 1: a change that no judge found.

    tests/judge/mutations.py [WORD...]      those whose name has a word
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = ROOT / "build" / "mutations"
# name, file, what is there, what comes in its place
MUTATIONS = [
    ("wrong attribute type", "netlink/route/link.cc", "put_u32(IFLA_GSO_MAX_SIZE, *change", "put_u32(IFLA_GSO_MAX_SEGS, *change"),
    ("attribute of a route in another's place", "netlink/route/route.cc", "put_u32(RTA_PRIORITY, route", "put_u32(RTA_TABLE, route"),
    ("padding missing", "netlink/message.cc", "bytes_.resize(at + aligned(size));", "bytes_.resize(at + size);"),
    ("nested length off by 4", "netlink/message.cc", "(bytes_.size() - start);", "(bytes_.size() - start - 4);"),
    ("nest without its flag", "netlink/message.cc", "attribute | NLA_F_NESTED", "attribute"),
    ("VLAN ID in the other byte order", "netlink/route/bridge_vlan.cc", "info.vid = id;", "info.vid = __builtin_bswap16(id);"),
    ("text without its NUL", "netlink/message.cc", "terminated.size() + 1", "terminated.size()"),
    ("prefix length of a route", "netlink/route/route.cc", "(route.dst.prefix);", "(route.dst.prefix - 1);"),
    ("u32 key in host order", "netlink/tc/filter.cc", "wire.mask = ::htonl(key.mask)", "wire.mask = key.mask"),
    ("priority of a filter in the lower half", "netlink/tc/filter.cc", "std::uint32_t{group.priority} << 16 |", "std::uint32_t{group.priority} |"),
    ("length of an attribute without its header", "netlink/attributes.cc", "item->subspan(sizeof(nlattr))", "item->subspan(sizeof(nlattr) - 2)"),
    ("attributes begin too late", "netlink/attributes.cc", "std::min(aligned(fixed_size), after.size())", "std::min(aligned(fixed_size) + 4, after.size())"),
    ("decoder takes another attribute", "netlink/route/link.cc", "case IFLA_MTU:", "case IFLA_GROUP:"),
    ("index of an address off by one", "netlink/route/address.cc", "static_cast<int>(head.ifa_index);", "static_cast<int>(head.ifa_index) + 1;"),
    ("data of an element is its key", "netlink/nf/set.cc", "value_in(element, NFTA_SET_ELEM_DATA)", "value_in(element, NFTA_SET_ELEM_KEY)"),
    ("egress map of a VLAN the other way round", "netlink/route/link_data.cc", "ifla_vlan_qos_mapping{.from = from, .to = to}", "ifla_vlan_qos_mapping{.from = to, .to = from}"),
    ("protocol of a VLAN in host order", "netlink/route/link_data.cc", "message.put_be16(IFLA_VLAN_PROTOCOL", "message.put_u16(IFLA_VLAN_PROTOCOL"),
    ("port of a connection in host order", "netlink/nf/conntrack.cc", "destination_port.be16()", "destination_port.u16()"),
]


def build_and_run():
    """What the judges say of the copy; None where it does not build."""
    built = subprocess.run(["cmake", "--build", COPY / "build", "--target", "unit_netlink"], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    if built.returncode != 0:
        print(built.stdout[-2000:])
        return None
    # Without the tests of Message, which read beside the end of some of these messages before a judge sees one.
    done = subprocess.run([COPY / "build/bin/unit_netlink", "-sfe=*/message_test.cc"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace")
    return re.findall("judge: (.*)", done.stdout)


def main():
    COPY.mkdir(parents=True, exist_ok=True)
    subprocess.run(f"git ls-files -z | grep -zv '^tests/fuzz/corpus' | xargs -0 cp --parents -t {COPY}", shell=True, check=True, cwd=ROOT)
    subprocess.run(["cmake", "-G", "Ninja", "-S", COPY, "-B", COPY / "build", "-DCMAKE_BUILD_TYPE=Debug"], check=True,
                   stdout=subprocess.DEVNULL)
    if build_and_run() != []:
        sys.exit("the judges find something without any change")
    missed = []
    print("| change | file | what the judges say |\n|---|---|---|")
    for name, file, before, after in MUTATIONS:
        if len(sys.argv) > 1 and not any(word in name for word in sys.argv[1:]):
            continue
        source = COPY / file
        text = source.read_text(encoding="utf-8")
        if text.count(before) != 1:
            sys.exit(f"'{before}' is {text.count(before)} times in {file}")
        source.write_text(text.replace(before, after), encoding="utf-8")
        said = build_and_run()
        source.write_text(text, encoding="utf-8")
        said = "; ".join(re.sub(r"[|`]", " ", line) for line in said or [])
        print(f"| {name} | `{file}` | {said or 'nothing'} |", flush=True)
        if not said:
            missed.append(name)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
