"""Which records of faults the installed IREE no longer needs: python test/sweep/faults.py [--jobs N] [WITNESS...]

Compiles the witness of each record (`backends/iree/fault.py`) with IREE's compiler alone, runs it, and compares its
results. Prints each record whose witness IREE gets right: its workaround can go. Each witness runs in a process of its
own, since IREE may crash on it.
"""

import argparse
import multiprocessing
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "py"))

from cases.witnesses import fails_alone, find_witness  # noqa: E402

from tiduc.backends.iree.records import Record, records  # noqa: E402


def witnessed(witnesses: Iterable[str] = ()) -> list[Record]:
    """The records whose witness IREE can be run on: all of them, or those of the given witnesses."""
    wanted = set(witnesses)
    found = [record for record in records() if record.fault.witness and not record.fault.untested]
    return [record for record in found if not wanted or record.fault.witness in wanted]


def unneeded(chosen: list[Record], jobs: int = 2) -> Iterator[Record]:
    """The records whose witness IREE alone compiles and runs as the specification says."""
    names = list(dict.fromkeys(record.fault.witness for record in chosen))
    with ThreadPoolExecutor(jobs) as pool:
        passes = dict(zip(names, pool.map(_passes, names), strict=True))
    return (record for record in chosen if passes[record.fault.witness])


def _passes(name: str) -> bool:
    """Whether IREE alone gets a witness right, in a process of its own."""
    process = multiprocessing.get_context("spawn").Process(target=_judge, args=(name,))
    process.start()
    process.join()
    return process.exitcode == 0


def _judge(name: str) -> None:
    """Ends the process with 0 if IREE gets the witness right, else with 1."""
    sys.exit(int(fails_alone(find_witness(name))))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("witness", nargs="*", help="only the records with these witnesses")
    parser.add_argument("--jobs", type=int, default=2, help="the number of processes")
    options = parser.parse_args()
    chosen = witnessed(options.witness)
    done = list(unneeded(chosen, options.jobs))
    for record in done:
        print(f"{record.name}: {record.fault.kind}: {record.fault.text} ({record.fault.witness})")
    print(f"{len(done)} of {len(chosen)} records are not needed")


if __name__ == "__main__":
    main()
