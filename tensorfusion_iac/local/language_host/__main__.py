"""`python -m tensorfusion_iac.local.language_host [FLAGS] ENGINE`: what the wrapper `pulumi-language-python` starts.

The first line on standard output is the port; the host serves until SIGINT or SIGTERM, or until the command that
started it is gone, and then ends without a word.
"""

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
from pulumi.runtime.proto import language_pb2_grpc

from tensorfusion_iac.local.language_host.children import Children
from tensorfusion_iac.local.language_host.server import LanguageRuntime

_MESSAGE_BYTES = 400 << 20  # the engine's own limit
_WORKERS = 64  # a plugin or policy pack holds one for as long as it runs

_PARENT_CHECK_S = 1.0


def main(arguments: list[str]) -> int:
    """Serve until told to stop. The engine's address is the last argument; its logging flags are not needed here."""
    if not arguments:
        sys.stderr.write("error: this program is started by the pulumi command, which gives its address\n")
        return 2
    parent = os.getppid()
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    children = Children()
    limits = [("grpc.max_receive_message_length", _MESSAGE_BYTES), ("grpc.max_send_message_length", _MESSAGE_BYTES)]
    server = grpc.server(ThreadPoolExecutor(max_workers=_WORKERS), options=limits)
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(LanguageRuntime(arguments[-1], children), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    while os.getppid() == parent and not stopped.wait(_PARENT_CHECK_S):
        pass
    children.stop()
    server.stop(grace=1).wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
