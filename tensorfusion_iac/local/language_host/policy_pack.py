"""Standing between the engine and a policy pack, so that the pack starts with the stack's configuration.

The engine sends the configuration by a call to the running pack, and packs written in Python read it from their
environment. So the host serves in the pack's place, starts the pack at the first call, and hands every call on unread.
"""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, InvalidStateError, ThreadPoolExecutor
from functools import partial
from typing import Any

import grpc
from pulumi.runtime.proto import analyzer_pb2

from tensorfusion_iac.local.language_host.children import Output

_SERVICE = "/pulumirpc.Analyzer/"
_MESSAGE_LIMIT = [("grpc.max_receive_message_length", 400 << 20), ("grpc.max_send_message_length", 400 << 20)]


class PolicyPackProxy(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """Serves the engine on `port`, and passes its calls to the pack once that serves."""

    def __init__(self) -> None:
        self._configured: Future[dict[str, str]] = Future()
        self._pack: Future[Any] = Future()
        self._server = grpc.server(ThreadPoolExecutor(max_workers=16), options=_MESSAGE_LIMIT)
        self._server.add_generic_rpc_handlers((self,))
        self.port: int = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def service(self, call: Any) -> Any:
        """How to answer a method: None means that it is not implemented."""
        name = call.method.removeprefix(_SERVICE)
        if name == call.method or name == "Handshake":
            return None
        return grpc.unary_unary_rpc_method_handler(partial(self._pass_on, call.method))

    def environment(self) -> dict[str, str]:
        """The variables for the pack, once the engine made its first call; CancelledError if it is closed before."""
        return self._configured.result()

    def attach(self, port: int) -> None:
        """Hand calls on to the pack, which serves on this port."""
        self._pack.set_result(grpc.insecure_channel(f"127.0.0.1:{port}", options=_MESSAGE_LIMIT))

    def fail(self, reason: str) -> None:
        """Refuse all calls that wait for the pack."""
        if not self._pack.done():
            self._pack.set_exception(RuntimeError(reason))

    def close(self) -> None:
        """Stop serving."""
        self._configured.cancel()
        self.fail("the policy pack was stopped")
        self._server.stop(grace=None)

    def _pass_on(self, method: str, request: bytes, context: Any) -> bytes:
        self._configure(_environment(request) if method == f"{_SERVICE}ConfigureStack" else {})
        try:
            channel = self._pack.result()
        except (RuntimeError, CancelledError) as error:
            context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
            raise
        try:
            answer: bytes = channel.unary_unary(method)(request)
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())
            raise
        return answer

    def _configure(self, environment: dict[str, str]) -> None:
        try:
            self._configured.set_result(environment)
        except InvalidStateError:
            return  # not the first call


def _environment(request: bytes) -> dict[str, str]:
    """The stack's configuration as the variables that pulumi_policy reads."""
    stack = analyzer_pb2.AnalyzerStackConfigureRequest.FromString(request)
    variables = {
        "PULUMI_ORGANIZATION": stack.organization,
        "PULUMI_PROJECT": stack.project,
        "PULUMI_STACK": stack.stack,
        "PULUMI_DRY_RUN": "true" if stack.dry_run else "false",
        "PULUMI_CONFIG": json.dumps(dict(stack.config)),
    }
    return {name: value for name, value in variables.items() if value}


def attached(chunks: Iterator[Output], attach: Callable[[int], None]) -> Iterator[Output]:
    """Pass a pack's output on, without the line that is the port that it serves on, which goes to `attach`."""
    unread: bytes | None = b""  # the beginning of a line; None once the port is known
    for name, chunk in chunks:
        if unread is None or name != "stdout":
            yield name, chunk
            continue
        unread += chunk
        while unread is not None and b"\n" in unread:
            line, _, unread = unread.partition(b"\n")
            if line.strip().isdigit():
                attach(int(line))
                line, unread = unread, None
            else:
                line += b"\n"  # what the pack prints before it serves
            if line:
                yield name, line
    if unread:
        yield "stdout", unread
