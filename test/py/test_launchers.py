"""Tests the environment variables of launchers of distributed programs, and how a process joins the other processes."""

import os

import pytest
from harness.launched import without_launchers

from tiduc.dialect.errors import RequestError, TiducError
from tiduc.distributed import Rank, joined, rank

SLURM = {
    "SLURM_JOB_ID": "17",
    "SLURM_STEP_NODELIST": "node[03-04]",
    "SLURM_PROCID": "1",
    "SLURM_NTASKS": "4",
    "SLURM_LOCALID": "1",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_SIZE": "3",
    "OMPI_COMM_WORLD_LOCAL_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "3",
}
KUBERNETES = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "2"}
ELSEWHERE = {"JAX_COORDINATOR_ADDRESS": "a:1"}


@pytest.mark.parametrize(
    "environment, expected",
    [
        ({}, None),
        ({"TIDUC_PROCESS": "1", "TIDUC_PROCESSES": "2", **ELSEWHERE}, Rank("tiduc", 1, 2, 1, "a:1")),
        (SLURM, Rank("Slurm", 1, 4, 1, None)),
        ({**SLURM, "SLURM_STEP_NODELIST": ""}, Rank("Slurm", 1, 4, 1, None)),
        ({name: value for name, value in SLURM.items() if name != "SLURM_STEP_NODELIST"}, None),
        ({**SLURM, "PMI_RANK": "0", "PMI_SIZE": "1"}, Rank("Slurm", 1, 4, 1, None)),
        ({**OPEN_MPI, **ELSEWHERE}, Rank("Open MPI", 2, 3, 2, "a:1")),
        ({**OPEN_MPI, "OMPI_MCA_orte_hnp_uri": "1.0;tcp://h:1"}, Rank("Open MPI", 2, 3, 2, None)),
        (
            {"PMI_RANK": "0", "PMI_SIZE": "2", **ELSEWHERE},
            Rank("MPICH or Intel MPI", 0, 2, None, "a:1"),
        ),
    ],
)
def test_the_variables_of_launchers(environment: dict[str, str], expected: Rank | None) -> None:
    assert rank(None, environment) == expected


def test_a_shell_in_an_allocation_of_slurm() -> None:
    """A shell that `srun --pty bash` has started has the variables of one task, and may start local processes."""
    shell = {**SLURM, "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0"}
    assert rank(4, shell) is None
    assert rank(None, shell) == rank(1, shell) == Rank("Slurm", 0, 1, 0, None)
    started = {**shell, "TIDUC_PROCESS": "3", "TIDUC_PROCESSES": "4", **ELSEWHERE}
    assert rank(4, started) == Rank("tiduc", 3, 4, 3, "a:1")


def test_mpi_on_one_host_needs_no_address() -> None:
    own = rank(3, OPEN_MPI)
    assert own is not None and own.address is not None and own.address.startswith("127.0.0.1:")


def test_kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getfqdn", lambda: "job-2.pods.default.svc.cluster.local")
    assert rank(4, KUBERNETES) == Rank("Kubernetes", 2, 4, None, "job-0.pods.default.svc.cluster.local:55527")
    with pytest.raises(RequestError, match="Kubernetes does not say how many processes"):
        rank(None, KUBERNETES)
    monkeypatch.setattr("socket.getfqdn", lambda: "elsewhere")
    with pytest.raises(RequestError, match="does not give the address .*: set JAX_COORDINATOR_ADDRESS"):
        rank(4, KUBERNETES)


@pytest.mark.parametrize(
    "count, changes, words",
    [
        (2, {}, "Slurm has started 4 processes, and 2 were asked for"),
        (None, {"SLURM_PROCID": "4"}, "SLURM_PROCID=4 is not the index of one of 4 processes"),
        (None, {"SLURM_PROCID": "x"}, "SLURM_PROCID=x is not a number"),
    ],
)
def test_wrong_variables(count: int | None, changes: dict[str, str], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        rank(count, {**SLURM, **changes})


def test_a_process_without_a_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name not in without_launchers()]:
        monkeypatch.delenv(name)
    with pytest.raises(RequestError, match="no launcher has started this process"), joined():
        pass


def test_errors_of_joining_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """If joining fails, `joined` raises the error instead of ending the process, so that the caller may handle it."""

    def fail(*arguments: object) -> None:
        raise TiducError("the engine xla needs JAX")

    for name, value in {"TIDUC_PROCESS": "0", "TIDUC_PROCESSES": "2", **ELSEWHERE}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tiduc.distributed.service.join", fail)
    monkeypatch.setattr("os._exit", lambda status: pytest.fail(f"the process ends with {status}"))
    with pytest.raises(TiducError, match="needs JAX"), joined():
        pass
