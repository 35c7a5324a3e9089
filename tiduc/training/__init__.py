"""Training steps: programs that compute the loss of a model and its gradient, and update the model's parameters.

    tiduc.training.fit(step, data, state=state, epochs=3)

step           train_step: makes the program of a training step from a model
shipment       TrainStep: a training step together with functions that evaluate and run its model
identity       a hash of a model, which is stored in the files of the training state
losses         with_loss: makes a program that computes the loss of a model. compose.py is for a loss that is a program.
optimizers     the updates of parameters, such as Adam
accumulate     adds the gradients of several batches before an update
precision      computes matrix products in bf16 or f16, and scales the loss for f16
lora           adds adapters of low rank to linear layers. integer_layers.py finds layers with quantized weights.
quantization   stores frozen weights as integers and scales. function_inputs.py changes the inputs of the model.
schedules      the learning rate of each step, which the caller passes to the program
roles          the role of each input of a step, such as parameter, state of the optimizer, or input of the model
runs           fit: runs training steps for some epochs, with batches.py, checkpoints.py and plots.py
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
