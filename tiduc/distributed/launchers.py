"""rank: which of several processes this process is, according to the environment variables of its launcher.

    SLURM_PROCID=2 SLURM_NTASKS=4 ...   ->   Rank("Slurm", 2, 4, local=0, address=None)

An address of None leaves the choice to JAX, which knows the addresses of Slurm and of Open MPI before version 5. The
variable JAX_COORDINATOR_ADDRESS has priority over the launcher's address.
"""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from tiduc.dialect.errors import RequestError

PROCESS, PROCESSES = "TIDUC_PROCESS", "TIDUC_PROCESSES"
"""The variables of `tiduc.distributed.launch`: the index of a process, and the number of processes."""

ADDRESS = "JAX_COORDINATOR_ADDRESS"
"""The variable with the host and port of process 0, where JAX's distributed service listens."""

_KUBERNETES_PORT = 55527  # the port that JAX chooses on Kubernetes
_PORTS = range(61440, 65536)  # the ports among which JAX chooses for Slurm and Open MPI


@dataclass(frozen=True)
class Rank:
    """One process among several: its index among `count` processes, and its index on its host, if known.

    `address` is the host and port of process 0; None if JAX finds the address itself.
    """

    launcher: str
    index: int
    count: int
    local: int | None
    address: str | None


@dataclass(frozen=True)
class _Launcher:
    """A launcher, and the variables with the index of a process, the number of processes, and the index on the host.

    `on_host` is the variable with the number of processes on this host. `required` lists further variables that only
    processes of the launcher have.
    """

    name: str
    index: str
    count: str
    local: str = ""
    on_host: str = ""
    required: tuple[str, ...] = ()


_SLURM = "Slurm"
_KUBERNETES = "Kubernetes"
LAUNCHERS = (
    _Launcher("tiduc", PROCESS, PROCESSES, PROCESS),
    # A batch script of Slurm that does not call srun has SLURM_PROCID, but no list of the step's hosts.
    _Launcher(
        _SLURM,
        "SLURM_PROCID",
        "SLURM_NTASKS",
        "SLURM_LOCALID",
        required=("SLURM_JOB_ID", "SLURM_STEP_NODELIST"),
    ),
    _Launcher(
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    _Launcher("MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    _Launcher(_KUBERNETES, "JOB_COMPLETION_INDEX", "", required=("KUBERNETES_SERVICE_HOST",)),
)
"""The launchers, in the order in which their variables are looked up."""


def rank(count: int | None = None, environment: Mapping[str, str] = os.environ) -> Rank | None:
    """The rank of this process, or None if no launcher has started it.

    Reads the variables of `launch`, of Slurm (`srun`), of `mpirun` (Open MPI, MPICH and Intel MPI), and of indexed jobs
    of Kubernetes, in this order. `count` is the expected number of processes, which the variables of Kubernetes lack.
    If Slurm has started one process and more are expected, this process is a shell of an allocation (`srun --pty bash`)
    or its child, and no launcher has started it.

    Raises `RequestError` if the launcher has started another number of processes, if a variable is not a number, or if
    the address of process 0 is not known.
    """
    for launcher in LAUNCHERS:
        needed = [name for name in (launcher.index, launcher.count, *launcher.required) if name]
        is_shell = launcher.name == _SLURM and environment.get(launcher.count) == "1" and (count or 1) > 1
        if all(name in environment for name in needed) and not is_shell:
            return _rank(launcher, count, environment)
    return None


def _rank(launcher: _Launcher, count: int | None, environment: Mapping[str, str]) -> Rank:
    index = _number(environment, launcher.index)
    started = _number(environment, launcher.count) if launcher.count else count
    if started is None:
        raise RequestError(
            f"{launcher.name} does not say how many processes it has started: pass their number"
        )
    if count is not None and started != count:
        raise RequestError(f"{launcher.name} has started {started} processes, and {count} were asked for")
    if not 0 <= index < started:
        raise RequestError(f"{launcher.index}={index} is not the index of one of {started} processes")
    local = _number(environment, launcher.local) if launcher.local in environment else None
    address = environment.get(ADDRESS) or _address(launcher, index, started, environment)
    return Rank(launcher.name, index, started, local, address)


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment[name]
    if not text.isdecimal():
        raise RequestError(f"{name}={text} is not a number")
    return int(text)


def _address(launcher: _Launcher, index: int, count: int, environment: Mapping[str, str]) -> str | None:
    """The address of process 0, as the launcher's variables give it. None if JAX reads it from them."""
    if launcher.name == _SLURM or "OMPI_MCA_orte_hnp_uri" in environment:
        return None
    if launcher.name == _KUBERNETES:
        # An indexed job names its pods JOB-INDEX. With a headless service, their domain resolves these names.
        host, dot, domain = socket.getfqdn().partition(".")
        first, named = re.subn(rf"-{index}$", "-0", host)
        if named:
            return f"{first}{dot}{domain}:{_KUBERNETES_PORT}"
    elif environment.get(launcher.on_host) == str(count):
        # All processes are on this host, and their parent is the launcher's process on this host.
        return f"127.0.0.1:{_PORTS[os.getppid() % len(_PORTS)]}"
    raise RequestError(f"{launcher.name} does not give the address of process 0: set {ADDRESS}=HOST:PORT")
