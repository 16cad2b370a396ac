"""A network of several plugins, run in the order and with the input that libcni gives them."""

import json
import os

from support.plugin import OURS, cni


class Network:
    """The conflist at path, or one given as a dict; plugins are looked for in directories."""

    def __init__(self, conflist, directories=(OURS,)):
        if isinstance(conflist, str):
            with open(conflist, encoding="utf-8") as file:
                conflist = json.load(file)
        self.conflist = conflist
        self.directories = directories
        self.version = conflist.get("cniVersion", "0.1.0")

    def missing(self):
        """The first plugin, IPAM plugins too, that no directory has."""
        for plugin in self.conflist["plugins"]:
            for name in filter(None, (plugin["type"], plugin.get("ipam", {}).get("type"))):
                if not self._find(name):
                    return name
        return None

    def _find(self, name):
        return next((d for d in self.directories if os.path.isfile(os.path.join(d, name))), None)

    def _request(self, plugin, capabilities, result):
        request = plugin | {"name": self.conflist["name"], "cniVersion": self.version}
        wanted = {k: v for k, v in capabilities.items() if plugin.get("capabilities", {}).get(k)}
        if wanted:
            request["runtimeConfig"] = wanted
        if result is not None:
            request["prevResult"] = result
        return request

    def _call(self, verb, plugin, request, options):
        return cni(plugin["type"], verb, request, directory=self._find(plugin["type"]),
                   path=":".join(self.directories), **options)

    def add(self, capabilities=None, **options):
        """ADD of every plugin in order; (result, None), or (None, the outcome that failed)."""
        result = None
        for plugin in self.conflist["plugins"]:
            request = self._request(plugin, capabilities or {}, result)
            outcome = self._call("ADD", plugin, request, options)
            if not outcome.ok:
                return None, outcome
            result = outcome.json
        return result, None

    def each(self, verb, result, capabilities=None, **options):
        """CHECK, or DEL in reverse order, of every plugin; the outcome that failed, or None."""
        plugins = self.conflist["plugins"]
        for plugin in reversed(plugins) if verb == "DEL" else plugins:
            request = self._request(plugin, capabilities or {}, result)
            outcome = self._call(verb, plugin, request, options)
            if not outcome.ok:
                return outcome
        return None
