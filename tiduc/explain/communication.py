"""communication: the bytes that the devices of a sharded program exchange in one run, and on paper on more devices.

XLA partitions the program for simulated devices, and the collectives are read from its result. Nothing is run.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod

from tiduc.backends.xla.backend import for_xla
from tiduc.backends.xla.collectives import Collective, Communication, bytes_sent, communication
from tiduc.backends.xla.executable import check_simulated
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.shardy import MESH, has_other_order, mesh_axes, partitions_of
from tiduc.program import Program

DEVICES = (8, 16, 32, 64, 128, 256, 512, 1024)
"""The numbers of devices for which `on_paper` is listed."""


@dataclass(frozen=True)
class Exchange:
    """The communication of a program and of its VJP, by the names "primal" and "vjp".

    `mesh` maps the axes to their sizes. It is empty if the program has no mesh of Shardy, several meshes, or a mesh
    that lists its devices or has another number of devices.
    """

    devices: int
    mesh: Mapping[str, int]
    programs: Mapping[str, Communication]

    @property
    def grown(self) -> str | None:
        """The axis that grows with the batch on paper: the first axis of the mesh."""
        return next(iter(self.mesh), None)

    def on_paper(self, collective: Collective, devices: int) -> int | None:
        """The bytes that each device sends in a collective on another number of devices, if the axis `grown` grows.

        The batch grows with the axis (weak scaling), so that the payload of gradients, parameters and of each device's
        part of the activations stays. Only the size of the groups along the axis changes. None for a number of devices
        that the other axes do not divide, and for a collective whose groups follow no axes.
        """
        if self.grown is None or not collective.axes or devices % (self.devices // self.mesh[self.grown]):
            return None
        group = collective.group
        if self.grown in collective.axes:
            group = group * devices // self.devices
        return bytes_sent(collective.kind, collective.payload, group) if group else None


@stage
def find_exchange(programs: Mapping[str, Program]) -> Exchange:
    """The communication of programs that are sharded over one mesh, each with its name.

    Raises `RequestError` for a program that is not sharded or is for more devices than `MOST_SIMULATED`, `CompileError`
    if XLA refuses a program, and `TiducError` if JAX is missing.
    """
    modules = {name: program.module for name, program in programs.items()}
    first = next(iter(modules.values()))
    devices = partitions_of(first)
    if devices == 1:
        raise RequestError("--sharding is for a program that is split among devices, as by 'tiduc shard'")
    check_simulated(devices)
    meshes = [op.attributes["mesh"] for op in operations(first.body) if op.name == MESH]
    is_plain = len(meshes) == 1 and not has_other_order(meshes[0])
    mesh = mesh_axes(meshes[0]) if is_plain and prod(mesh_axes(meshes[0]).values()) == devices else {}
    found = {name: communication(for_xla(module)[0], devices, mesh) for name, module in modules.items()}
    return Exchange(devices, mesh, found)


def as_json(exchange: Exchange) -> dict[str, object]:
    """The communication as data for JSON; docs/explain.md describes the fields."""
    return {
        "devices": exchange.devices,
        "mesh": dict(exchange.mesh),
        "grown": exchange.grown,
        "programs": {
            name: [
                {
                    **asdict(each),
                    "sent": each.sent,
                    "on_paper": {str(devices): exchange.on_paper(each, devices) for devices in DEVICES},
                }
                for each in of.collectives
            ]
            for name, of in exchange.programs.items()
        },
        "has_unknown_loops": any(of.has_unknown_loops for of in exchange.programs.values()),
    }
