"""Run by path with the Python of a program: runs the program in a stack, as the engine's monitor wants it.

It needs only pulumi, for that Python need not have this package. Exit code 0: done; SHOWN: failed, and the reason was
sent to the engine, so the command adds nothing; NO_PULUMI: this Python can't import pulumi; others: failed.
"""

import argparse
import asyncio
import logging
import runpy
import signal
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

SHOWN = 32  # the engine's word for "the user has seen the reason": RunResponse.bail
NO_PULUMI = 33
LAST_CALLS_S = 4.0  # less than the host's patience with an interrupted program


def main() -> int:
    """Run the program that the command line names; see `_arguments`."""
    arguments = _arguments()
    try:
        import pulumi.runtime
    except ModuleNotFoundError:
        return NO_PULUMI
    pulumi.runtime.configure(
        pulumi.runtime.Settings(
            project=arguments.project,
            stack=arguments.stack,
            monitor=arguments.monitor,
            engine=arguments.engine,
            parallel=arguments.parallel,
            dry_run=arguments.dry_run == "true",
            organization=arguments.organization,
            root_directory=arguments.root_directory,
        )
    )
    pulumi.runtime.set_all_config(pulumi.runtime.get_config_env(), pulumi.runtime.config.get_config_secret_keys_env())
    program = Path(arguments.program)
    if program.is_dir() and not (program / "__main__.py").is_file():
        _show(f"there is no __main__.py in {program}: add it, or name the program in Pulumi.yaml (main)")
        return SHOWN
    sys.argv = [str(program), *arguments.arguments]
    sys.path[0] = str(program if program.is_dir() else program.parent)  # in place of this file's folder
    return _run(program, arguments.parallel)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="program")
    for name in ("monitor", "engine", "project", "stack", "organization", "root-directory", "dry-run"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--parallel", type=int, required=True)
    parser.add_argument("program", help="a Python file, or a folder with a __main__.py")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args()


def _run(program: Path, parallel: int) -> int:
    import grpc
    import pulumi
    from pulumi.runtime.stack import run_in_stack

    def run_program() -> None:
        runpy.run_path(str(program), run_name="__main__")

    # What fails in a task is reported below, once; asyncio would report it again as never retrieved.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.set_default_executor(ThreadPoolExecutor(max_workers=max(parallel, 1) * 4))
    stack = loop.create_task(run_in_stack(run_program))
    try:
        loop.run_until_complete(stack)
    except pulumi.RunError as error:
        _show(str(error))
        return SHOWN
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.UNAVAILABLE:
            return 0  # the engine is going away, and told the user why
        _show(f"the engine refused a request: {error.details()}")
        return SHOWN
    except KeyboardInterrupt:
        # How the host stops a program: the engine knows. What it had begun fails now, and then it calls the program's hooks.
        loop.run_until_complete(asyncio.wait([stack], timeout=LAST_CALLS_S))
        return SHOWN
    except Exception as error:  # noqa: BLE001 -- whatever a user's program raises
        _show(f"the program failed with an unhandled exception:\n{_traceback(error)}")
        return SHOWN
    finally:
        _end(loop)
    return 0


def _end(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what a failed program left pending, so that closing the loop is silent."""
    pending = asyncio.all_tasks(loop)
    for task in pending:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
    loop.close()
    sys.stdout.flush()
    sys.stderr.flush()


def _show(message: str) -> None:
    """Send an error to the engine, which shows it on the stack; to standard error where it can't be reached."""
    import grpc
    import pulumi

    try:
        pulumi.log.error(message)
    except grpc.RpcError:
        sys.stderr.write(f"error: {message}\n")


def _traceback(error: Exception) -> str:
    """The traceback from the program's first line on: how the program came to be run is no news to its author."""
    start = error.__traceback__
    frame = start
    while frame is not None:
        if "runpy" in frame.tb_frame.f_code.co_filename:
            start = frame.tb_next
        frame = frame.tb_next
    return "".join(traceback.format_exception(type(error), error, start)).rstrip()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """The first SIGINT ends the program; the host sends it, and a terminal may have before, to host and program alike."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _until_interrupted() -> int:
    """Run `main`, and end in silence at whatever moment an interrupt comes: while an error is being told, too."""
    signal.signal(signal.SIGINT, _interrupt)
    try:
        code = main()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Python has still to end its threads
    except KeyboardInterrupt:
        return SHOWN
    return code


if __name__ == "__main__":
    sys.exit(_until_interrupted())
