"""Recognizes file formats of models and weights that tiduc does not read, and says how to convert such files.

    contents or name of a file -> `Format` -> a description, and two lines of code that write an importable file

`tiduc import`, `import_model` and the readers of MLIR files show the description and the lines in their errors.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

_ZIP = b"PK\x03\x04"
_ENDS = 2**20
"""The number of bytes at each end of a file that are read to recognize its format."""

_EXPORT = 'torch.export.save(torch.export.export(model.eval(), (example,)), "model.pt2")'
_JAX = (
    "exported = jax.export.export(jax.jit(function))(*example)",
    'open("model.jaxexport", "wb").write(exported.serialize())',
)


@dataclass(frozen=True)
class Format:
    """A file format: its description, and two lines of Python or shell code that create a file which tiduc imports."""

    what: str
    lines: tuple[str, str]

    def message(self) -> str:
        """The text of a diagnostic, with a note for each line."""
        first = f"{self.what}; to make a file that 'tiduc import' reads:"
        return "\n".join((first, *(f"note: {line}" for line in self.lines)))


_WEIGHTS = Format(
    "weights without a program (safetensors)",
    ('model.load_state_dict(safetensors.torch.load_file("weights.safetensors"))', _EXPORT),
)
_PICKLE = Format(
    "a pickle, which can run code when it is read: a state dict or a whole model of PyTorch, or an object of Python",
    ('model.load_state_dict(torch.load("model.pt", weights_only=True))', _EXPORT),
)
_TORCHSCRIPT = Format(
    "a TorchScript module, which torch.export does not accept: export the torch.nn.Module that it was made from",
    ("model.load_state_dict(torch.jit.load('model.pt').state_dict())", _EXPORT),
)
_KERAS = Format(
    "a model or weights of Keras",
    ('model = keras.saving.load_model("model.keras")', 'model.export("model.onnx", format="onnx")'),
)
_TFLITE = Format(
    "a model of TensorFlow Lite",
    ("pip install tf2onnx", "python -m tf2onnx.convert --tflite model.tflite --output model.onnx"),
)
_SAVED_MODEL = Format(
    "a SavedModel of TensorFlow",
    ("pip install tf2onnx", "python -m tf2onnx.convert --saved-model folder --output model.onnx"),
)
_GGUF = Format(
    "quantized weights without a program (GGUF)",
    ('model = transformers.AutoModelForCausalLM.from_pretrained("folder", gguf_file="model.gguf")', _EXPORT),
)
_HLO = Format("HLO, which precedes StableHLO in XLA: export the function again", _JAX)
_JAXPR = Format("a jaxpr, which JAX prints for people to read: export the function", _JAX)

_SUFFIXES: Mapping[str, Format] = {
    ".safetensors": _WEIGHTS,
    ".pt": _PICKLE,
    ".pth": _PICKLE,
    ".ckpt": _PICKLE,
    ".bin": _PICKLE,
    ".pkl": _PICKLE,
    ".pickle": _PICKLE,
    ".joblib": _PICKLE,
    ".keras": _KERAS,
    ".h5": _KERAS,
    ".hdf5": _KERAS,
    ".tflite": _TFLITE,
    ".pb": _SAVED_MODEL,
    ".gguf": _GGUF,
    ".hlo": _HLO,
    ".jaxpr": _JAXPR,
}


def format_at(path: str) -> Format | None:
    """The format of a file, recognized by the file's first and last bytes, or else by its suffix.

    A folder that contains `saved_model.pb` is a SavedModel. Returns None if the path cannot be read, or if its format
    is not known.
    """
    try:
        if os.path.isdir(path):
            return _SAVED_MODEL if "saved_model.pb" in os.listdir(path) else None
        with open(path, "rb") as file:
            start = file.read(_ENDS)
            file.seek(max(len(start), os.path.getsize(path) - _ENDS))
            contents = start + file.read()
    except OSError:
        return None
    return format_of(contents) or _SUFFIXES.get(PurePath(path).suffix.lower())


def format_of(contents: bytes) -> Format | None:
    """The format of a file with these bytes; None if it is unknown.

    A zip archive is recognized by the names of its members, which are listed at its end.
    """
    if contents.startswith(_ZIP):
        members = contents[-_ENDS:]
        if b"/constants.pkl" in members and b"/code/" in members:
            return _TORCHSCRIPT
        if b"data.pkl" in members:
            return _PICKLE
        return _KERAS if b"model.weights.h5" in members else None
    if contents[8:10] == b'{"' and int.from_bytes(contents[:8], "little") < 2**32:
        return _WEIGHTS
    for prefix, format_ in _PREFIXES.items():
        if contents.startswith(prefix):
            return format_
    if contents[4:8] == b"TFL3":
        return _TFLITE
    return _JAXPR if contents.lstrip()[:10].startswith(b"{ lambda") else None


_PREFIXES: Mapping[bytes, Format] = {
    b"GGUF": _GGUF,
    b"\x89HDF\r\n": _KERAS,
    b"HloModule": _HLO,
    **{b"\x80" + bytes([protocol]): _PICKLE for protocol in range(2, 6)},
}
