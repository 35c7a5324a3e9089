"""communication: tables of the bytes that the devices of a sharded program exchange."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tiduc.cli.tables import table
from tiduc.explain.communication import Exchange
from tiduc.view.label import in_bytes

if TYPE_CHECKING:
    from rich.table import Table

_DEVICES = (8, 32, 128, 512, 1024)  # of `DEVICES`, those for which a table has room
_NAMES = {"primal": "program", "vjp": "VJP"}


def communication_tables(exchange: Exchange) -> Iterable["Table"]:
    """The tables of `tiduc explain --sharding`."""
    listed = [(_NAMES[name], each) for name, of in exchange.programs.items() for each in of.collectives]
    mesh = ", ".join(f"{axis}={size}" for axis, size in exchange.mesh.items())
    notes = ["payload: of the complete arrays; sent: by each device, with algorithms on rings"]
    if any(of.has_unknown_loops for of in exchange.programs.values()):
        notes.append("counted as one iteration: loops whose trip count is unknown")
    yield table(
        f"Communication on {exchange.devices:,} devices{mesh and f': {mesh}'}",
        ("of", "collective", "axes", "devices", "times", "payload", "sent"),
        [
            (
                name,
                each.kind,
                ", ".join(each.axes) or "unknown",
                f"{each.group:,}",
                f"{each.count:,}",
                in_bytes(each.payload),
                in_bytes(each.sent),
            )
            for name, each in listed
        ],
        right={3, 4, 5, 6},
        notes=notes,
    )
    if exchange.grown is None:
        return
    yield table(
        f"Sent by each device, on paper, if {exchange.grown} and the batch grow",
        ("of", "collective", "axes", *(f"{devices:,}" for devices in _DEVICES)),
        [
            (
                name,
                each.kind,
                ", ".join(each.axes) or "unknown",
                *(_in_bytes(exchange.on_paper(each, devices)) for devices in _DEVICES),
            )
            for name, each in listed
        ],
        right={*range(3, 3 + len(_DEVICES))},
        notes=["the columns are numbers of devices; a gather of the batch itself would grow with it"],
    )


def _in_bytes(size: int | None) -> str:
    return "" if size is None else in_bytes(size)
