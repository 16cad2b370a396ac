"""`cnitool probe` on the node of support.doctor, and its remedies carried out."""

import json

from support.cnitool import cnitool
from support.doctor import BIN, DoctorTest, shell
from support.world import run

FAST = ("--rate", "2000")


class ProbeTest(DoctorTest):
    def setUp(self):
        super().setUp()
        run("ip", "-6", "route", "del", "default")  # its gateway does not exist: each probe would wait for it

    def probe(self, *words):
        done = cnitool("probe", "--json", *FAST, *words, CNI_PATH=BIN)
        answer = json.loads(done.stdout)
        self.assertEqual(done.status, 0 if answer["ok"] else 1, done.stdout)
        return answer

    def assert_silent(self):
        answer = self.probe()
        self.assertEqual(answer["findings"], [])
        self.assertTrue(answer["ok"])
        self.assertGreater(answer["answered"], 8)

    def found(self, *parts):
        """The remedies of the findings that say all of it."""
        answer = self.probe()
        self.assertFalse(answer["ok"])
        mine = [one for one in answer["findings"] if all(part in one["what"] for part in parts)]
        self.assertTrue(mine, answer["findings"])
        return [one["remedy"] for one in mine]

    def assert_heals(self, *parts):
        for remedy in self.found(*parts):
            shell(remedy)
        self.assert_silent()

    def address_of(self, pod):
        """Its IPv4 address."""
        return json.loads(pod.run("ip", "-j", "-4", "addr", "show", "dev", "eth0"))[0]["addr_info"][0]["local"]
