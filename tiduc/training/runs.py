"""fit: runs a compiled training step for some epochs. It also validates, and writes metrics and checkpoints.

    fit(step, {"x": x, "target": t}, epochs=3, rate=cosine(1e-3, 300), validation=held_out, save="best.safetensors")

The state stays on the device, where the step updates it in place. Python only sends the batches.
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from time import monotonic
from typing import Any, BinaryIO

import numpy as np

from tiduc.dialect.errors import InputError, RequestError, TiducError
from tiduc.runtime.array_files import restored
from tiduc.runtime.arrays import Array
from tiduc.runtime.devices import DeviceArray
from tiduc.runtime.modules import load
from tiduc.runtime.run import Executable, Module
from tiduc.runtime.signature import SignatureValue
from tiduc.runtime.weights import IDENTITY, write_weights
from tiduc.training.batches import Batches
from tiduc.training.checkpoints import (
    Position,
    RateDigest,
    check_name,
    check_same,
    checksum,
    read_checkpoint,
    write_checkpoint,
)
from tiduc.training.schedules import Schedule, for_run
from tiduc.training.shipment import LOSS, STEP, TrainStep

Path = str | os.PathLike[str]
Data = Mapping[str, Array]
RATE = "rate"


@dataclass(frozen=True)
class StepRecord:
    """A completed step: its number, the number of its epoch, its loss and its learning rate. Numbers begin at 1."""

    step: int
    epoch: int
    loss: float
    rate: float


@dataclass(frozen=True)
class EpochRecord:
    """A completed epoch: the number of its last step, its number, its mean training loss, and its validation loss.

    `best` states whether the validation loss is less than in all previous epochs.
    """

    step: int
    epoch: int
    mean: float
    validation: float | None = None
    best: bool = False


Record = StepRecord | EpochRecord
Report = Callable[[Record, int, int], None]
"""A function that is called with each record, the number of rows in the step's batch, and the number of all steps."""


@dataclass(frozen=True)
class Trained:
    """The result of `fit`: the state after the last step, and the records of the steps and epochs of this call."""

    state: dict[str, Array]
    records: Sequence[Record] = field(repr=False)

    @property
    def losses(self) -> list[float]:
        """The training loss of each step."""
        return [each.loss for each in self.records if isinstance(each, StepRecord)]

    @property
    def validations(self) -> list[float]:
        """The validation loss of each epoch. The list is empty without validation data."""
        epochs = [each for each in self.records if isinstance(each, EpochRecord)]
        return [each.validation for each in epochs if each.validation is not None]


def fit(
    step: TrainStep | bytes | Path,
    data: Data,
    *,
    state: Data | None = None,
    epochs: int = 1,
    batch: int | None = None,
    rate: float | Schedule = 1e-3,
    schedule: str = "constant",
    warm_up: int = 0,
    end_rate: float = 0.0,
    seed: int = 0,
    validation: Data | None = None,
    save: Path | None = None,
    checkpoint: Path | None = None,
    every: float = 30.0,
    metrics: Path | None = None,
    notes: Mapping[str, str] | None = None,
    report: Report | None = None,
    target: str = "cpu",
) -> Trained:
    """Trains for `epochs` epochs, beginning with `state`. The default state is the initial state of a `TrainStep`.

    `step` is a `TrainStep`, or a module that `tiduc train-step` compiled. `data` and `validation` map the name of each
    input of a batch to an array with the rows of all batches. `batch` is the number of rows in a batch. `rate` is a
    `Schedule` or the learning rate. For a number, `schedule` ("constant" or "cosine"), `warm_up` and `end_rate` give
    the schedule. `seed` determines the order of the rows.

    The last state is written to the file `save`. With `validation`, this is instead the state after the epoch with the
    least validation loss, and the step must have the function `loss`. The state is written to the file `checkpoint`
    after each epoch, and at most every `every` seconds. If this file exists, the run continues from it. A line of JSON
    for each record is written to the file `metrics`. `notes` are further entries of the metadata in all files of
    states. Raises `InputError` if data or state do not fit the step, and `TiducError` if a loss is not finite.
    """
    if epochs < 1:
        raise RequestError(f"epochs must be at least 1, not {epochs}")
    if isinstance(step, TrainStep):
        state = step.weights if state is None else state
        notes = {IDENTITY: step.identity, **(notes or {})}
    source: Any = step.compile(target).vmfb if isinstance(step, TrainStep) else step
    if state is None:
        raise RequestError("a module needs the state to begin from")
    with load(source, target) as module:
        functions = _Functions(module, state)
        batches = Batches(data, functions.batch_inputs(functions.step), batch)
        held_out = None if validation is None else functions.validating(validation)
        steps = epochs * len(batches)
        rates = rate if isinstance(rate, Schedule) else for_run(schedule, rate, steps, warm_up, end_rate)
        run = _Run(functions, batches, held_out, rates, seed, save, checkpoint, every, notes or {}, report)
        return run.trained(state, epochs, metrics)


class _Functions:
    """The functions of a compiled module: the training step, and the optional function `loss` for validation."""

    def __init__(self, module: Module, state: Data) -> None:
        self.module = module
        self.step = module[STEP if STEP in module else "main"]
        inputs = self.step.signature.inputs
        updated = [value.name for value in self.step.signature.outputs[1:]]
        known = {value.name for value in inputs}
        if not known.issuperset(updated) or not self.step.donated or RATE not in known:
            raise RequestError("the module is not a training step that 'tiduc train-step' compiled")
        if missing := [name for name in updated if name not in state]:
            raise InputError(f"the state has no array {missing[0]!r}; it has: {', '.join(state) or 'none'}")
        if unknown := [name for name in state if name not in known]:
            raise InputError(f"the step has no input {unknown[0]!r} of the state")
        self.stored = [value.name for value in inputs if value.name in state]
        self.updated = updated

    def placed(self, state: Data) -> dict[str, DeviceArray]:
        """Copies the arrays of the state to the device."""
        types = {value.name: value.type for value in self.step.signature.inputs}
        return {name: self.module.put(restored(state[name], types[name])) for name in self.stored}

    def batch_inputs(self, function: Executable) -> list[SignatureValue]:
        """Returns the inputs of a function that are neither arrays of the state nor the learning rate."""
        known = {*self.stored, RATE}
        return [value for value in function.signature.inputs if value.name not in known]

    def validating(self, data: Data) -> Batches:
        """Returns the batches of the validation data. Raises `RequestError` if the module has no function `loss`."""
        if LOSS not in self.module:
            raise RequestError(
                "the module evaluates no loss: give 'tiduc train-step --infer' the model in evaluation mode"
            )
        return Batches(data, self.batch_inputs(self.module[LOSS]))

    def validated(self, arrays: Mapping[str, DeviceArray], batches: Batches) -> float:
        """Returns the mean loss of all rows in `batches`. The state does not change."""
        loss, total, count = self.module[LOSS], 0.0, 0
        for each in batches.in_order():
            given: dict[str, DeviceArray | Array] = {**arrays, **each}
            (value,) = loss(*(given[x.name] for x in loss.signature.inputs))
            rows = len(next(iter(each.values())))
            total, count = total + float(value) * rows, count + rows
        return total / count


@dataclass
class _Run:
    """A training run. It consists of functions, data, settings, and the files that the run writes."""

    functions: _Functions
    batches: Batches
    held_out: Batches | None
    schedule: Schedule
    seed: int
    save: Path | None
    checkpoint: Path | None
    every: float
    notes: Mapping[str, str]
    report: Report | None

    def trained(self, state: Data, epochs: int, metrics: Path | None) -> Trained:
        """Trains to the end of the last epoch. Begins with the checkpoint if there is one, else with `state`."""
        data = checksum(self.batches.arrays, {} if self.held_out is None else self.held_out.arrays)
        begin = Position(seed=self.seed, batch=self.batches.size, data=data)
        state, self.position = self._resumed(state, begin)
        self.steps = epochs * len(self.batches)
        self.records: list[Record] = []
        self.rates = RateDigest(self.schedule, self.position.step)
        self.arrays = self.functions.placed(state)
        self.written = monotonic()
        with ExitStack() as files:
            self.file = (
                None if metrics is None else files.enter_context(_opened(metrics, self.position.bytes))
            )
            while self.position.epoch < epochs:
                self._epoch()
        final = self._state()
        if self.save is not None and self.held_out is None:
            write_weights(self.save, final, self.notes)
        return Trained(final, self.records)

    def _resumed(self, state: Data, begin: Position) -> tuple[Data, Position]:
        """Returns the state and the position in the checkpoint. Returns the arguments if there is no checkpoint."""
        if self.checkpoint is None:
            return state, begin
        check_name(self.checkpoint)
        if not os.path.exists(self.checkpoint):
            return state, begin
        kept, position = read_checkpoint(self.checkpoint)
        rates = str(RateDigest(self.schedule, position.step))
        check_same(position, replace(begin, rates=rates), self.checkpoint)
        if {*kept} != {*state}:
            raise RequestError("the checkpoint has other arrays than the state", os.fspath(self.checkpoint))
        return kept, position

    def _epoch(self) -> None:
        """Trains to the end of the current epoch, validates, and writes the files of states."""
        epoch, done = self.position.epoch, self.position.step - self.position.epoch * len(self.batches)
        for given in self.batches.shuffled(self.seed, epoch, done):
            self._step(given)
            if self.checkpoint is not None and monotonic() - self.written >= self.every:
                self._write_checkpoint()
        at = self.position
        held_out = self.held_out
        loss = None if held_out is None else self.functions.validated(self.arrays, held_out)
        is_best = loss is not None and (at.best is None or loss < at.best)
        self.position = replace(at, epoch=epoch + 1, total=0.0, best=loss if is_best else at.best)
        self._tell(EpochRecord(at.step, epoch + 1, at.total / len(self.batches), loss, is_best), 0)
        if is_best and self.save is not None:
            write_weights(self.save, self._state(), self.notes)
        if self.checkpoint is not None:
            self._write_checkpoint()

    def _step(self, given: Data) -> None:
        step, number = self.functions.step, self.position.step
        rate = self.schedule(number)
        self.rates.add(rate)
        values = {**self.arrays, **given, RATE: rate}
        outputs = step.keep(*(values[x.name] for x in step.signature.inputs))
        loss = float(outputs[0])
        self.arrays |= dict(zip(self.functions.updated, outputs[1:], strict=True))
        if not math.isfinite(loss):
            raise TiducError(
                f"the loss of step {number + 1} is {loss}: the run ends; try a lower learning rate"
            )
        self.position = replace(self.position, step=number + 1, total=self.position.total + loss)
        rows = len(next(iter(given.values())))
        self._tell(StepRecord(number + 1, self.position.epoch + 1, loss, float(rate)), rows)

    def _tell(self, record: Record, rows: int) -> None:
        self.records.append(record)
        if self.file is not None:
            known = {name: value for name, value in asdict(record).items() if value is not None}
            self.file.write(f"{json.dumps(known)}\n".encode())
            self.file.flush()
            self.position = replace(self.position, bytes=self.file.tell())
        if self.report is not None:
            self.report(record, rows, self.steps)

    def _state(self) -> dict[str, Array]:
        return {name: np.asarray(x.numpy()) for name, x in self.arrays.items()}

    def _write_checkpoint(self) -> None:
        assert self.checkpoint is not None
        position = replace(self.position, rates=str(self.rates))
        write_checkpoint(self.checkpoint, self._state(), position, self.notes)
        self.written = monotonic()


def _opened(path: Path, kept: int) -> BinaryIO:
    """Opens the file of metrics and truncates it to `kept` bytes, its length when the checkpoint was written.

    Raises `InputError` if the file is shorter.
    """
    try:
        if not kept:
            return open(path, "wb")
        file = open(path, "r+b")
        if file.seek(0, os.SEEK_END) < kept:
            file.close()
            raise InputError("the file of metrics lacks records of the checkpoint", os.fspath(path))
        file.truncate(kept)
        file.seek(kept)
        return file
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror or error}", os.fspath(path)) from error


def records_in(path: Path) -> Iterator[Record]:
    """Reads the records in a file of metrics."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            known = json.loads(line)
            yield StepRecord(**known) if "loss" in known else EpochRecord(**known)
