"""Finds records of faults that the installed IREE no longer needs: python test/sweep/faults.py [--jobs N] [WITNESS...]

IREE, without tiduc's workarounds, compiles and runs the witness of each record (`backends/iree/fault.py`). Prints each
record whose witness IREE computes correctly, because its workaround can be removed. A witness runs in a process of its
own, because IREE may crash on it.
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

_FORK = multiprocessing.get_context("fork")  # fork: a new interpreter would import for seconds


def witnessed(witnesses: Iterable[str] = ()) -> list[Record]:
    """The records whose witness can run on IREE. With `witnesses`, only their records."""
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
    """The witnesses that IREE computes correctly without workarounds; each runs in its own process."""
    processes = {name: _FORK.Process(target=_judge, args=(name,)) for name in names}
    for process in processes.values():
        process.start()
    for process in processes.values():
        process.join()
    return [name for name, process in processes.items() if process.exitcode == 0]


def _judge(name: str) -> None:
    """Ends the process with status 0 if IREE computes the witness correctly, and with 1 otherwise."""
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
