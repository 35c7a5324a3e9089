"""write_trained: writes trained weights to a copy of a model's file, or to a file of another format.

    net.onnx + state -> net.onnx        the initializers have the new values
    net.pt2  + state -> net.pt2         the arrays of the program have the new values
    any file + state -> .mlir           a program with the weights as constants
    any file + state -> .safetensors    only the weights; for a .pt2 file, all arrays of the state dict

In a copy of a model's file, only the weights change. Code in the file is not run.
"""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tiduc.dialect.errors import RequestError
from tiduc.models.constants import freeze
from tiduc.models.model import Model
from tiduc.models.torch.archive import PICKLED, read_parts
from tiduc.models.torch.dialect import import_in_worker
from tiduc.models.torch.payloads import arrays, documents, read_payloads, view
from tiduc.program import from_module
from tiduc.runtime.arrays import Array
from tiduc.runtime.files import written_whole
from tiduc.runtime.weights import FORMATS, write_weights
from tiduc.training.lora import is_adapted, merged
from tiduc.training.quantization import dequantized


def write_trained(model: Model, file: str, state: Mapping[str, Array], output: str) -> None:
    """Writes the weights of a model, with the values in `state`, to `output`.

    The suffix of `output` selects the format. `file` is the file from which the model was imported, with its weights as
    inputs. LoRA adapters in the state are added to the weights. Raises `RequestError` if the state does not fit the
    model, and if the format is not supported for this file.
    """
    if not model.weights:
        raise RequestError("the model has no weights that could be trained")
    given = merged(state) if is_adapted(state) else dequantized(state)
    trained = model.with_weights({name: given[name] for name in model.weights if name in given}).weights
    suffix, own = Path(output).suffix.lower(), Path(file).suffix.lower()
    if own == ".pt2" and suffix in (own, *FORMATS):
        _write_torch(file, {**given, **trained}, output)
    elif suffix in FORMATS:
        write_weights(output, trained)
    elif suffix in (".mlir", ".mlirbc"):
        module = model.lowered()
        freeze(module, trained)
        from_module(module, model.name, model.opset).save(output)
    elif suffix == own == ".onnx":
        _write_onnx(file, trained, output)
    else:
        kinds = ", ".join(dict.fromkeys((*FORMATS, ".mlir", own)))
        raise RequestError(f"weights of {file} are written to files {kinds}", output)


def _write_onnx(file: str, weights: Mapping[str, Array], output: str) -> None:
    import onnx
    import onnx.numpy_helper

    model = onnx.load(file)
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.asarray(weights[tensor.name]), tensor.name))
    if model.ByteSize() >= 2**31:
        raise RequestError("an ONNX file has at most 2 GiB; write the weights alone, as .safetensors", output)
    with written_whole(output) as written:
        written.write(model.SerializeToString())


def _write_torch(file: str, given: Mapping[str, Array], output: str) -> None:
    """Writes the program with new values if `output` ends in `.pt2`, else its state dict with all buffers."""
    parts = read_parts(file)
    sizes = {name: len(contents) for name, contents in parts.items()}
    payloads = import_in_worker(read_payloads, None, documents(parts), sizes)
    for name, payload in (payloads.constants | payloads.weights).items():
        if name not in given:
            continue
        elements, array = view(payload, parts), np.asarray(given[name])
        if elements.dtype != array.dtype or elements.shape != array.shape:
            raise RequestError(f"{name!r} has another type in the state than in the file", file)
        elements[...] = array
    if Path(output).suffix.lower() != ".pt2":
        write_weights(output, arrays(payloads.weights, payloads, parts))
        return
    if any(name in parts for name in PICKLED.values()):
        raise RequestError(
            "the file is PyTorch 2.8's: load it with PyTorch, and save the program again", file
        )
    with (
        zipfile.ZipFile(file) as source,
        written_whole(output) as written,
        zipfile.ZipFile(written, "w") as copy,
    ):
        for member in source.infolist():
            name = member.filename.partition("/")[2]
            data = parts[name] if name in parts else source.read(member)
            copy.writestr(member, bytes(data), zipfile.ZIP_STORED)
