"""What a plugin's --schema says of a config, in the words of an independent validator."""

import functools
import json
import os
import subprocess

try:
    import jsonschema
except ImportError:
    jsonschema = None


@functools.lru_cache(maxsize=None)
def schema_of(executable):
    """The schema that the executable prints; None where it has none."""
    env = {key: value for key, value in os.environ.items() if key != "CNI_COMMAND"}
    asked = subprocess.run([executable, "--schema"], env=env, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return json.loads(asked.stdout) if asked.returncode == 0 and asked.stdout else None


def _branches(schema, root):
    """The schema and what it refers to, each of which may describe keys."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield from _branches(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root)
        for branch in schema.get("anyOf", []):
            yield from _branches(branch, root)
        yield schema


def as_documented(conf, schema, root=None):
    """The config with its keys spelled as in the schema: a plugin takes them in any case."""
    root = root or schema
    for branch in _branches(schema, root):
        if isinstance(conf, dict) and "properties" in branch:
            known = {name.lower(): name for name in branch["properties"]}
            out = {}
            for key, value in conf.items():
                name = key if key in branch["properties"] else known.get(key.lower(), key)
                if name == key or name not in conf:
                    out[name] = as_documented(value, branch["properties"].get(name, {}), root)
            return out
        if isinstance(conf, list) and "items" in branch:
            return [as_documented(item, branch["items"], root) for item in conf]
    return conf


def text_of(path):
    """A place as the plugins write it: ipam.ranges[0][1].subnet."""
    out = ""
    for step in path:
        out += f"[{step}]" if isinstance(step, int) else "." * bool(out) + step
    return out


def errors(conf, schema):
    """(place, message) of everything that the validator has against a config."""
    checker = jsonschema.Draft202012Validator(schema)
    return [(text_of(error.absolute_path), error.message)
            for error in checker.iter_errors(as_documented(conf, schema))]


_allowed = set()


def check_accepted(executable, conf):
    """What a plugin accepted its schema must allow, and that of the IPAM plugin too."""
    if jsonschema is None:
        return
    doc = json.loads(conf)
    doc.pop("prevResult", None)  # is another for every pod, and open to all
    key = executable + json.dumps(doc)
    if key in _allowed:
        return
    _allowed.add(key)
    ipam = doc.get("ipam") or {}
    beside = os.path.join(os.path.dirname(executable), str(ipam.get("type") or "none"))
    for program in {executable, beside}:
        schema = schema_of(program) if os.access(program, os.X_OK) else None
        wrong = errors(doc, schema) if schema else []
        assert not wrong, f"{program} --schema refuses what {executable} accepts: {wrong}: {conf}"
