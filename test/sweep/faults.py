"""Finds workarounds that are obsolete with the installed IREE: python test/sweep/faults.py [--jobs N] [WITNESS...]

A record (`backends/iree/fault.py`) describes a fault of IREE. Its witness is a program that shows the fault. This sweep
compiles and runs each witness with IREE, without tiduc's workarounds. If the results are right, the workaround for the
fault can be removed, and the sweep prints the record. Each witness runs in a separate process, because IREE may
crash.
"""

import argparse
import multiprocessing
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "py"))

from cases.witnesses import fails_alone, find_witness  # noqa: E402
from counts import summary  # noqa: E402

from tiduc.backends.iree.fault import Record  # noqa: E402
from tiduc.backends.iree.records import records  # noqa: E402

_FORK = multiprocessing.get_context("fork")  # a new interpreter would need seconds for its imports


def witnessed(witnesses: Iterable[str] = ()) -> list[Record]:
    """Returns the records whose witness can run. If `witnesses` is not empty, only the records with these witnesses."""
    wanted = set(witnesses)
    witnessed_records = [record for record in records() if record.fault.witness and not record.fault.untested]
    return [record for record in witnessed_records if not wanted or record.fault.witness in wanted]


def unneeded(chosen: list[Record], jobs: int = 2) -> Iterator[Record]:
    """Yields the records whose witness IREE compiles and runs correctly without workarounds."""
    names = list(dict.fromkeys(record.fault.witness for record in chosen))
    right = {
        name for some in (names[i : i + jobs] for i in range(0, len(names), jobs)) for name in _right(some)
    }
    return (record for record in chosen if record.fault.witness in right)


def _right(names: Iterable[str]) -> list[str]:
    """Returns the witnesses for which IREE computes right results without workarounds.

    Each witness runs in a separate process.
    """
    processes = {name: _FORK.Process(target=_judge, args=(name,)) for name in names}
    for process in processes.values():
        process.start()
    for process in processes.values():
        process.join()
    return [name for name, process in processes.items() if process.exitcode == 0]


def _judge(name: str) -> None:
    """Runs a witness. Ends the process with status 0 if IREE's results are right, and with status 1 otherwise."""
    sys.exit(int(fails_alone(find_witness(name))))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("witness", nargs="*", help="only the records with these witnesses")
    parser.add_argument("--jobs", type=int, default=2, help="the number of processes")
    options = parser.parse_args()
    chosen = witnessed(options.witness)
    if not chosen:
        parser.error(f"no tested record has the witness {' or '.join(options.witness)}")
    done = list(unneeded(chosen, options.jobs))
    for record in done:
        print(f"{record.name}: {record.fault.kind}: {record.fault.text} ({record.fault.witness})")
    print(summary({"ok": len(chosen) - len(done), "not needed": len(done)}))


if __name__ == "__main__":
    main()
