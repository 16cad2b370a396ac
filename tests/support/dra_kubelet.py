"""A kubelet's side of Dynamic Resource Allocation, beside that of device plugins: registration of drivers, NodePrepareResources,
NodeUnprepareResources, the stream of health, and claims in PodResources.

Numbers of fields are those of k8s.io/kubelet (pkg/apis/dra/v1 and v1beta1, dra-health/v1alpha1). It keeps each instance of a
driver by its socket, as kubelets since 1.33 do, and calls the one that came last.
"""

import os
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import kubelet  # noqa: E402
from support.kubelet import decode, encode  # noqa: E402

DRIVER, NODE = "devices.patchbay", "n1"

kubelet.FIELDS.update({
    "Claims": {1: ("claims", "*Claim")},
    "Claim": {1: ("namespace", "string"), 2: ("uid", "string"), 3: ("name", "string")},
    "Prepared": {1: ("claims", "*PreparedOf")},
    "PreparedOf": {1: ("key", "string"), 2: ("value", "PreparedClaim")},
    "PreparedClaim": {1: ("devices", "*PreparedDevice"), 2: ("error", "string")},
    "PreparedDevice": {1: ("request_names", "*string"), 2: ("pool_name", "string"), 3: ("device_name", "string"),
                       4: ("cdi_device_ids", "*string"), 5: ("share_id", "string")},
    "Unprepared": {1: ("claims", "*UnpreparedOf")},
    "UnpreparedOf": {1: ("key", "string"), 2: ("value", "UnpreparedClaim")},
    "UnpreparedClaim": {1: ("error", "string")},
    "HealthList": {1: ("devices", "*DeviceHealth")},
    "DeviceHealth": {1: ("device", "DeviceName"), 2: ("health", "int"), 3: ("updated", "int"), 4: ("timeout", "int"), 5: ("message", "string")},
    "DeviceName": {1: ("pool_name", "string"), 2: ("device_name", "string")},
})
CALLS = {"NodePrepareResources": "Prepared", "NodeUnprepareResources": "Unprepared"}


class DraKubelet(kubelet.Kubelet):
    """The process. api: the version by which it calls. refuses: text with which it refuses each registration of a driver."""

    PROGRAM = os.path.abspath(__file__)

    def drivers(self, name=DRIVER):
        """The sockets of the registered instances, in the order in which they came."""
        return self.ask("drivers").get(name, [])

    def call(self, method, *claims, timeout=45, api=None, driver=DRIVER):
        """{UID: answer} of claims, which are objects of the API. Refused where there is no driver, or the call fails."""
        named = [{"namespace": one["metadata"]["namespace"], "uid": one["metadata"]["uid"], "name": one["metadata"]["name"]} for one in claims]
        answer = self.ask("dra", driver=driver, method=method, claims=named, timeout=timeout, api=api)
        return {one["key"]: one["value"] or {"devices": [], "error": ""} for one in answer["claims"]}

    def prepare(self, claim, **more):
        """The devices of one claim; Refused with the driver's sentence."""
        answer = self.call("NodePrepareResources", claim, **more)[claim["metadata"]["uid"]]
        if answer["error"]:
            raise kubelet.Refused("ERROR", answer["error"])
        return answer["devices"]

    def unprepare(self, claim, **more):
        answer = self.call("NodeUnprepareResources", claim, **more)[claim["metadata"]["uid"]]
        if answer["error"]:
            raise kubelet.Refused("ERROR", answer["error"])

    def own_claims(self, space, name, *claims):
        """PodResources lists a pod with claims from now on, as their status says."""
        self.ask("own", pod={"name": name, "namespace": space, "containers": [{"name": "main", "dynamic_resources": [
            {"claim_name": one["metadata"]["name"], "claim_namespace": one["metadata"]["namespace"], "claim_resources": [
                {"driver_name": result["driver"], "pool_name": result["pool"], "device_name": result["device"]}
                | ({"share_id": result["shareID"]} if "shareID" in result else {})
                for result in one["status"]["allocation"]["devices"]["results"]]} for one in claims]}]})

    def health(self, driver=DRIVER):
        """{device: whether it is healthy} as the last message of the stream had it; None before one."""
        return self.ask("health", driver=driver)

    def raw(self, method, data, api="v1", driver=DRIVER):
        """The status of a call with these bytes."""
        return self.ask("raw", driver=driver, method=method, data=data.hex(), api=api)


# From here on what runs in the process.

class Server(kubelet.Server):
    def __init__(self, folder, api="v1", refuses="", **options):
        self.api, self.refuses, self.instances, self.healths = api, refuses, {}, {}
        super().__init__(folder, **options)

    def service(self, name, api=None):
        return f"/k8s.io.kubelet.pkg.apis.dra.{api or self.api}.DRAPlugin/{name}"

    def inform(self, channel):
        info = channel.unary_unary("/pluginregistration.Registration/GetInfo",
                                   response_deserializer=lambda data: decode("PluginInfo", data))(b"", timeout=1)
        if info["type"] != "DRAPlugin":
            return super().inform(channel)
        error = self.refuses or ("" if f"{self.api}.DRAPlugin" in info["supported_versions"] else "no supported version")
        if not error:
            with self.lock:
                self.instances.setdefault(info["name"], []).append(info["endpoint"])
            if "v1alpha1.DRAResourceHealth" in info["supported_versions"]:
                threading.Thread(target=self.follow, args=(info["name"], info["endpoint"]), daemon=True).start()
        status = encode("RegistrationStatus", {"plugin_registered": not error, "error": error})
        return channel.unary_unary("/pluginregistration.Registration/NotifyRegistrationStatus")(status, timeout=5)

    def deregister(self, name):
        with self.lock:
            for sockets in self.instances.values():
                sockets[:] = [one for one in sockets if os.path.basename(one) != name]
        super().deregister(name)

    def channel(self, driver):
        with self.lock:
            path = self.instances[driver][-1] if self.instances.get(driver) else None
        if path is None:
            raise KeyError(driver)
        return self.grpc.insecure_channel(f"unix:{path}", options=[("grpc.use_local_subchannel_pool", 1)])

    def follow(self, driver, path):
        channel = self.grpc.insecure_channel(f"unix:{path}")
        watch = channel.unary_stream("/v1alpha1.DRAResourceHealth/NodeWatchResources",
                                     response_deserializer=lambda data: decode("HealthList", data))
        try:
            for answer in watch(b""):
                self.healths[driver] = {one["device"]["device_name"]: one["health"] == 1 for one in answer["devices"]}
        except self.grpc.RpcError:
            pass
        channel.close()

    def do(self, command):
        do = command["do"]
        if do == "drivers":
            with self.lock:
                return {name: list(sockets) for name, sockets in self.instances.items()}
        if do == "health":
            return self.healths.get(command["driver"])
        if do not in ("dra", "raw"):
            return super().do(command)
        channel = self.channel(command["driver"])
        try:
            return (self.call_driver if do == "dra" else self.send_raw)(channel, command)
        finally:
            channel.close()

    def call_driver(self, channel, command):
        method = command["method"]
        return channel.unary_unary(self.service(method, command["api"]), request_serializer=lambda value: encode("Claims", value),
                                   response_deserializer=lambda data: decode(CALLS[method], data))(
            {"claims": command["claims"]}, timeout=command["timeout"])

    def send_raw(self, channel, command):
        try:
            channel.unary_unary(self.service(command["method"], command["api"]))(bytes.fromhex(command["data"]), timeout=20)
        except self.grpc.RpcError as error:
            return error.code().name
        return "OK"


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import json
    Server(sys.argv[1], **json.loads(sys.argv[2])).run()
    os._exit(0)
