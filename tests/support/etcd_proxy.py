"""A gRPC proxy in front of etcd: each answer and each event of a watch comes late.

It runs as a program of its own, as support.cri does and for the same reason; each line of its stdin is a time in seconds.
"""

import os
import subprocess
import sys
import threading
import time
from concurrent import futures

PORT = 2389


class Proxy:
    """It listens when it is made."""

    def __init__(self, python, target):
        self.url = f"http://127.0.0.1:{PORT}"
        self.process = subprocess.Popen([python, os.path.abspath(__file__), target], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def delay(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()

    def stop(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def serve(target):
    import grpc  # not for the Python of the tests
    to, delays = grpc.insecure_channel(target), [0.0]

    def same(message):
        return message

    def unary(method):
        """etcd does what it is asked, though the client may not wait for the answer."""
        call = to.unary_unary(method, same, same)

        def answer(request, context):
            try:
                out = call(request)
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())
            time.sleep(delays[0])
            return out

        return grpc.unary_unary_rpc_method_handler(answer, same, same)

    def stream(method):
        call = to.stream_stream(method, same, same)

        def answer(requests, context):
            answers, ended = call(requests), threading.Event()
            for end in (answers.cancel, ended.set):
                context.add_callback(end)
            try:
                for one in answers:
                    ended.wait(delays[0])
                    yield one
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())

        return grpc.stream_stream_rpc_method_handler(answer, same, same)

    class Handler(grpc.GenericRpcHandler):
        def service(self, handler_call_details):
            method = handler_call_details.method
            return (stream if method.endswith("/Watch") else unary)(method)

    server = grpc.server(futures.ThreadPoolExecutor(64), handlers=[Handler()])
    server.add_insecure_port(f"127.0.0.1:{PORT}")
    server.start()
    print(flush=True)
    for line in sys.stdin:
        delays[0] = float(line)
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1].removeprefix("http://"))
