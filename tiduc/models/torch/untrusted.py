"""Imports untrusted `.pt2` files of PyTorch. Evaluates no text of a file, and builds the program in a worker process.

    model.pt2 --archive--> parts --worker: schema, rebuilt, decompositions, torch-mlir--> StableHLO
                             +---- imports: the cache of programs that were imported before ----+

The calling process reads the parts of the file without interpreting them, and does not need PyTorch. The worker, which
has limits of time and memory, gets the program and the bytes of arrays that are not weights. `torch.export.load` is
never called, because it evaluates text of a file and unpickles parts of the file.
"""

from collections.abc import Mapping
from importlib.util import find_spec

from tiduc.dialect.errors import TiducError
from tiduc.models.assemble import assemble
from tiduc.models.model import Model
from tiduc.models.torch import archive, imports
from tiduc.models.torch.dialect import import_in_worker
from tiduc.models.torch.imports import Import
from tiduc.models.torch.isolated import lower_program
from tiduc.models.torch.payloads import arrays, documents, read_payloads
from tiduc.runtime.process import Limits
from tiduc.runtime.worker import warm_up

_NO_TORCH = "importing models of PyTorch requires PyTorch: pip install 'tiduc[torch]'"


def read_file(path: str, lift_constants: bool, limits: Limits | None, cached: bool = True) -> Model:
    """Imports the model in a file. If `cached` is false, the cache of imported programs is neither read nor written.

    Raises `TiducError` if `torch.export.save` did not write the file, or if the file requires the option `trust`.
    """
    try:
        parts = archive.read_parts(path)
        if find_spec("torch") is None:
            raise TiducError(_NO_TORCH)
        key = imports.key_of(parts) if cached else None
        found = imports.read(key, parts) if key else None
        if found is None:
            found = _imported(parts, limits)
            if key:
                imports.write(key, parts, found)
        payloads, given = found
        weights = arrays(given.weights, payloads, parts)
    except MemoryError:
        raise TiducError("the arrays of the file need more memory than there is", path) from None
    except OSError as error:
        raise TiducError(f"cannot read: {error.strerror or error}", path) from None
    except TiducError as error:
        error.location = error.location or path
        raise
    return assemble(
        given.stablehlo, given.inputs, given.outputs, weights, lift_constants, frozen=given.frozen
    )


def _imported(parts: Mapping[str, bytearray], limits: Limits | None) -> Import:
    """Imports the program of an archive in worker processes, without the cache."""
    warm_up(lower_program.__module__, "torch.export", "torch_mlir.fx")
    sizes = {name: len(contents) for name, contents in parts.items()}
    payloads = import_in_worker(read_payloads, limits, documents(parts), sizes)
    contents = imports.constants_in(parts, payloads)
    given = import_in_worker(lower_program, limits, parts[archive.MODEL], payloads, contents, sizes)
    return Import(payloads, given)
