#!/usr/bin/env python3
"""A plugin's --schema says what the plugin does: an independent validator and the plugin agree on
what is right and on the place of what is wrong. The schema's own table of properties makes the
mistakes, so that no key is left out."""

import copy
import glob
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.configs import CONFIGS, is_ipam  # noqa: E402
from support.plugin import OURS, PLUGINS, ROOT, cni  # noqa: E402
from support.schema import errors, jsonschema, schema_of, text_of  # noqa: E402

# What every config may have, and the plugin need not look at.
COMMON = {"cniVersion", "name", "type", "capabilities", "prevResult", "args", "dns", "ipam",
          "runtimeConfig", "cni.dev/valid-attachments", "cni.dev/attachments", "patchbayLog"}


def not_seen(plugin):
    """Read by ADD alone: CHECK and STATUS take no offence."""
    return {"ipam.type"} if is_ipam(plugin) else set()


def schema(plugin):
    return schema_of(os.path.join(OURS, plugin))


def confs_of(plugin):
    return [{"cniVersion": "1.1.0", "name": "net", "type": plugin, **keys} for keys in CONFIGS[plugin].full]


def said_by(plugin, conf):
    """The error in which the plugin complains about its config; {} if it does not."""
    # STATUS reads the config as ADD does, and changes nothing.
    outcome = cni(plugin, "STATUS", conf)
    error = outcome.json if outcome.stdout else {}
    return error if error.get("code") in (6, 7) else {}


def places_in(error):
    """The places that an error names: in its msg, also behind words of the reference plugins, and
    at the begin of its details. The rest of the details is what others wrote, as a value is."""
    return [*error.get("msg", "").split(": "), error.get("details", "").split(": ")[0]]


def judged_by(plugin, conf):
    """What --validate says of a config: the error, {} if there is none, and the places that the
    table of keys names. A plugin that is chained is after a plugin."""
    conf = conf | {"prevResult": {"cniVersion": "1.1.0"}} if "prevResult" not in conf else conf
    got = subprocess.run([os.path.join(OURS, plugin), "--validate"], input=json.dumps(conf),
                         capture_output=True, text=True)
    answer = json.loads(got.stdout) if got.stdout else {}
    assert got.stderr == "" and got.returncode == (1 if "code" in answer else 0), got
    listed = [one["path"] for one in answer.pop("findings", [])]
    return answer if "code" in answer else {}, listed


def refused_by(plugin, conf):
    return judged_by(plugin, conf)[0]


def resolved(part, root):
    """The schema of a value that is there: what $ref leads to, and of alternatives the first."""
    if "$ref" in part:
        return resolved(root["$defs"][part["$ref"].rsplit("/", 1)[1]], root)
    if "anyOf" in part and "type" not in part:
        return resolved(part["anyOf"][0], root) | {"alternatives": part["anyOf"]}
    return part


def places(value, part, root, path=()):
    """(path, schema) of every value in a config that its schema describes."""
    part = resolved(part, root)
    if path:
        yield path, part
    if isinstance(value, dict):
        for key, below in part.get("properties", {}).items():
            if key in value:
                yield from places(value[key], below, root, (*path, key))
    if isinstance(value, list) and "items" in part:
        for index, item in enumerate(value):
            yield from places(item, part["items"], root, (*path, index))


def mistakes(part):
    """Values that a schema rules out."""
    types = part.get("type", [])
    types = [types] if isinstance(types, str) else types
    yield {"no": "value"} if "object" not in types else "no object"
    if "boolean" not in types:
        yield True
    if "string" not in types and not part.get("alternatives"):
        yield "1"
    if "integer" in types:
        yield 1.5
    for limits in [part, *part.get("anyOf", [])]:
        if "minimum" in limits and "alternatives" not in part:
            yield limits["minimum"] - 1
        if "maximum" in limits and "alternatives" not in part:
            yield limits["maximum"] + 1
    if "enum" in part:
        yield "no such word"
    if "string" in types and ("pattern" in part or "format" in part or "anyOf" in part):
        yield "no, ;\n"


def edges(part):
    """The outermost values that a schema allows."""
    for limits in [part, *part.get("anyOf", [])]:
        yield from (limits[bound] for bound in ("minimum", "maximum", "const") if bound in limits)
    yield from part.get("enum", [])


def changed(conf, path, value):
    """A copy of the config with another value at a place; Ellipsis takes the key away."""
    out = copy.deepcopy(conf)
    inner = out
    for step in path[:-1]:
        inner = inner[step]
    if value is Ellipsis:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return out


@suite.spread
class Schema(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        if jsonschema is None:
            self.skipTest("needs the Python module jsonschema")

    def own_places(self, plugin):
        """(config, path, schema) of every key that the plugin reads."""
        root = schema(plugin)
        for conf, keys in zip(confs_of(plugin), CONFIGS[plugin].full):
            for path, part in places(conf, root, root):
                if path[0] in keys and text_of(path) not in not_seen(plugin):
                    yield conf, path, part

    @suite.cases([(plugin, plugin) for plugin in PLUGINS])
    def is_a_schema_of_draft_2020_12_for(self, plugin):
        jsonschema.Draft202012Validator.check_schema(schema(plugin))
        self.assertEqual(schema(plugin)["title"], plugin)

    @suite.cases([(plugin, plugin) for plugin in PLUGINS])
    def every_key_can_be_right_for(self, plugin):
        kept = {"ipam", "cniVersion", "name", *schema(plugin).get("required", ())}
        for conf in confs_of(plugin):
            nothing = {key: value if key in kept else None for key, value in conf.items()}
            for right in (conf, nothing):
                self.assertEqual(errors(right, schema(plugin)), [])
                self.assertEqual(said_by(plugin, right), {})

    @suite.cases([(plugin, plugin) for plugin in PLUGINS])
    def the_full_configs_have_all_keys_of(self, plugin):
        def keys(part, path=()):
            part = resolved(part, root)
            for key, below in part.get("properties", {}).items():
                yield (*path, key)
                yield from keys(below, (*path, key))
            if "items" in part:
                yield from keys(part["items"], path)

        root = schema(plugin)
        tried = {tuple(step for step in path if isinstance(step, str))
                 for _, path, _ in self.own_places(plugin)}
        tried |= {tuple(place.split(".")) for place in not_seen(plugin)}
        read = {key for conf in CONFIGS[plugin].full for key in conf}
        every = {path for path in keys(root) if path[0] not in COMMON or path[0] in read}
        self.assertEqual(every - tried, set())

    @suite.cases([(plugin, plugin) for plugin in PLUGINS])
    def what_is_wrong_is_wrong_at_the_same_place_for(self, plugin):
        tried, differ = 0, []
        for conf, path, part in self.own_places(plugin):
            for value in mistakes(part):
                wrong, place = changed(conf, path, value), text_of(path)
                found = [where for where, _ in errors(wrong, schema(plugin))]
                said = said_by(plugin, wrong)
                tried += 1
                listed = judged_by(plugin, wrong)[1]
                if any(place not in named for named in (found, places_in(said), listed)):
                    differ.append(f"{place} = {value!r}: the validator {found}, {plugin} {said}, "
                                  f"its table {listed}")
        self.assertEqual(differ, [])
        self.assertGreaterEqual(tried, sum(len(conf) for conf in CONFIGS[plugin].full))

    @suite.cases([(plugin, plugin) for plugin in PLUGINS])
    def validate_refuses_what_a_verb_refuses_for(self, plugin):
        tried = confs_of(plugin)
        for conf, path, part in self.own_places(plugin):
            tried += [changed(conf, path, value) for value in mistakes(part)]
        for conf in tried:
            self.assertEqual(refused_by(plugin, conf), said_by(plugin, conf), conf)

    @suite.cases([(plugin, plugin) for plugin in PLUGINS])
    def what_is_just_right_is_right_for(self, plugin):
        differ = []
        for conf, path, part in self.own_places(plugin):
            for value in edges(part):
                right, place = changed(conf, path, value), text_of(path)
                found = [where for where, _ in errors(right, schema(plugin))]
                said = said_by(plugin, right)
                listed = judged_by(plugin, right)[1]
                if any(place in named for named in (found, places_in(said), listed)):
                    differ.append(f"{place} = {value!r}: the validator {found}, {plugin} {said}, "
                                  f"its table {listed}")
        self.assertEqual(differ, [])

    @suite.cases([(plugin, plugin) for plugin in PLUGINS])
    def what_is_missing_is_missing_for(self, plugin):
        root = schema(plugin)
        for conf in confs_of(plugin):
            for path, part in [((), root), *places(conf, root, root)]:
                for key in part.get("required", []):
                    less = changed(conf, (*path, key), Ellipsis)
                    self.assertIn(text_of(path), [where for where, _ in errors(less, root)])
                    self.assertIn(text_of((*path, key)), places_in(said_by(plugin, less)))

    @suite.cases([(plugin, plugin) for plugin in PLUGINS])
    def an_unknown_key_is_a_mistake_in_writing_only_for(self, plugin):
        root = schema(plugin)
        for conf in confs_of(plugin):
            for path, part in [((), root), *places(conf, root, root)]:
                if part.get("additionalProperties") is False:
                    more = changed(conf, (*path, "noSuchKey"), 1)
                    self.assertIn(text_of(path), [where for where, _ in errors(more, root)])
                    self.assertIn(text_of((*path, "noSuchKey")), judged_by(plugin, more)[1])
                    self.assertEqual(said_by(plugin, more), {})

    def test_every_example_is_right_by_the_schemas_of_its_plugins(self):
        tried = 0
        for path in glob.glob(os.path.join(ROOT, "conf-examples", "*.conflist")):
            with open(path, encoding="utf-8") as file:
                conflist = json.load(file)
            for conf in conflist["plugins"]:
                conf |= {"name": conflist["name"], "cniVersion": conflist["cniVersion"]}
                for plugin in (conf["type"], conf.get("ipam", {}).get("type")):
                    if plugin in PLUGINS:
                        self.assertEqual(errors(conf, schema(plugin)), [], path)
                        tried += 1
        self.assertGreater(tried, 10)

    @suite.cases([(plugin, plugin) for plugin in PLUGINS])
    def options_are_answered_by(self, plugin):
        for option, says in (("--help", "\nCapabilities: "), ("--version", f"CNI {plugin} plugin"),
                             ("--keys", "| key | type |")):
            got = subprocess.run([os.path.join(OURS, plugin), option], stdin=subprocess.DEVNULL,
                                 capture_output=True, text=True)
            self.assertEqual((got.returncode, got.stderr), (0, ""))
            self.assertIn(says, got.stdout)
        got = subprocess.run([os.path.join(OURS, plugin), "--no-such-option"],
                             capture_output=True, text=True)
        self.assertEqual((got.returncode, got.stdout), (2, ""))
        self.assertIn("unknown option '--no-such-option'", got.stderr)


if __name__ == "__main__":
    suite.main()
