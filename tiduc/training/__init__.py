"""Training steps: a model, its loss, the gradient and the update of its parameters, as one program.

    tiduc.training.fit(step, data, state=state, epochs=3)

step           train_step: the whole program, from a model; parameters are updated in place
shipment       TrainStep: a step, with the evaluation and the inference of its model over one state
identity       a hash of a model, which the files of its state carry
losses         the loss, as a scalar output of the model's program; compose, for a loss that is a program
optimizers     the update of a parameter, given its gradient and its state
accumulate     sums of gradients over several batches, before an update
precision      products in a narrower type, and the loss scale for f16
lora           adapters of low rank beside linear layers, also those of integer_layers.py
quantization   frozen weights as integers and scales, with function_inputs.py
schedules      the learning rate of each step, which the caller passes to the program
roles          what each input of a step is: a parameter, state of the optimizer, an input of the model, ...
runs           fit: epochs of steps, with batches.py, checkpoints.py and plots.py
trained        writes trained weights back to the file of a model
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiduc.training.runs import fit

__all__ = ["fit"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'tiduc.training' has no attribute {name!r}")
    return import_module("tiduc.training.runs").fit
