"""Marks cases of sampled tests slow, marks tests that need PyTorch, and compares `tiduc ops` with the tests."""

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.evidence import NOTES, joined
from harness.frameworks import mark_torch, mark_vulkan
from harness.order_two import ORDER_TWO
from harness.samples import mark_slow
from xla_flags import XLA_FLAGS

from tiduc.tables import Refusal

# Eight devices, all of them this CPU, for multi-device programs. The other flags shorten compilation, which takes
# most of XLA's time. JAX reads these flags when it is first used.
FLAGS = f"--xla_force_host_platform_device_count=8 {XLA_FLAGS}"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}"

# The tests of a session share a temporary cache of compiled programs, so that they do not use the user's cache.
IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ  # a pytest-xdist worker, which inherits the session's cache
if not IS_WORKER:
    os.environ["TIDUC_CACHE"] = tempfile.mkdtemp(prefix="tiduc-tests-")

RULES = Path(__file__).with_name("rules")
HOW = "python -m pytest test/py/rules --write-tables"


def pytest_addoption(parser: Any) -> None:
    text = "write the results of the tests of rules into the tables; a partial run only adds to them"
    parser.addoption("--write-tables", action="store_true", help=text)


class _Session:
    """The state of a session: whether all tests of rules ran, and how the tables differ."""

    whole = False
    deselected = False  # some tests of rules were deselected
    lines: list[str] = []


@pytest.hookimpl(tryfirst=True)  # runs before pytest deselects slow tests
def pytest_collection_modifyitems(items: Any) -> None:
    mark_slow(items)
    mark_torch(items)
    mark_vulkan(items)


def pytest_deselected(items: Any) -> None:
    _Session.deselected |= any(RULES in item.path.parents for item in items)


def pytest_collection_finish(session: Any) -> None:
    ran = {item.path for item in session.items}
    collected = set(RULES.glob("test_*.py")) <= ran and not _Session.deselected
    _Session.whole = collected and not session.config.option.collectonly
    gc.freeze()  # tests and libraries live as long as the session; no collection visits them now


def pytest_unconfigure() -> None:
    gc.unfreeze()  # lets the last collection free all objects; bindings report those that stay
    if not IS_WORKER:
        shutil.rmtree(os.environ["TIDUC_CACHE"], ignore_errors=True)


@pytest.fixture
def double_precision() -> Iterator[None]:
    """Runs JAX in double precision for one test. `jax.config.update` would also affect later tests of the process."""
    import jax  # most tests do not need JAX

    with jax.enable_x64(True):
        yield


@pytest.fixture
def interpreted(double_precision: None) -> Iterator[None]:
    """Runs eager arrays through the interpreter, and JAX in double precision."""
    from harness.eager_check import SESSION

    from tiduc.eager import executing

    with executing(SESSION):
        yield


@pytest.fixture
def default_signals() -> Iterator[None]:
    """Handles SIGINT and SIGHUP as in a terminal. Under nohup, and in the background of a shell, they are ignored."""
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in previous.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def vulkan() -> Iterator[None]:
    """Closes Vulkan devices after each test, because open devices keep two cores busy."""
    yield
    if "tiduc.runtime.devices" in sys.modules:
        from harness.vulkan import close_vulkan

        close_vulkan()


@pytest.fixture(autouse=True)
def notes(request: Any) -> Any:
    """Records the rules that the tests in `rules/` check, and the refusals that these tests meet.

    Among the fast tests, only a sample of a grid of cases checks order two.
    """
    are_rules = RULES in request.path.parents
    is_sampled = "not slow" in request.config.option.markexpr and hasattr(request.node, "callspec")
    ORDER_TWO.sample(request.path if are_rules and is_sampled else None)
    if not are_rules:
        yield
        return
    with NOTES.taken():
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """Collects the notes of a pytest-xdist worker."""
    handed = getattr(node, "workeroutput", {}).get("notes")
    if handed is not None:
        NOTES.rules.update(tuple(row) for row in handed["rules"])
        NOTES.refusals.update(Refusal(*row) for row in handed["refusals"])
        _Session.whole = handed["whole"]


def pytest_sessionfinish(session: Any, exitstatus: int) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["notes"] = {
            "rules": [list(row) for row in NOTES.rules],
            "refusals": [list(row) for row in NOTES.refusals],
            "whole": _Session.whole,
        }
        return
    if exitstatus != 0:
        return
    for table, rows in NOTES.tables().items():
        known = table.read()
        wanted = rows if _Session.whole else joined([*known, *rows])
        if session.config.getoption("--write-tables"):
            table.write(wanted)
            continue
        _Session.lines += [f"{table.name}: not in the table: {row}" for row in wanted if row not in known]
        _Session.lines += [f"{table.name}: no test has {row}" for row in known if row not in wanted]
    if _Session.lines:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _Session.lines:
        terminalreporter.section("the tests of rules have other results than the tables")
        for line in [*_Session.lines, f"if these are right, rewrite the tables: {HOW}"]:
            terminalreporter.line(line)
