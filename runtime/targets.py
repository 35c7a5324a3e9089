"""The targets, as data: what each tells IREE's compiler, and the device that runs the result."""

import re
from dataclasses import dataclass, replace

from tiduc.dialect.errors import TiducError


@dataclass(frozen=True)
class Target:
    """A name, the compiler's flags, and the runtime's device.

    `variant` is the flag that takes what follows the colon, as in `cuda:sm_86`; `variants` is a pattern of
    those known to compile, since IREE's compiler crashes on names that it does not know.
    """

    name: str
    description: str
    flags: tuple[str, ...]
    device: str
    variant: str = ""
    variants: str = ""
    default: str = ""


# Without this, IREE makes f32 of every f64, the signature's included, and says nothing.
_KEEP_F64 = "--iree-input-demote-f64-to-f32=false"

_CPU = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",  # 3 to 4 times as fast as the generic default
    "--iree-global-opt-data-tiling=true",  # up to 1.4 times as fast on products of matrices
    # The embedded linker knows no libm, which sin, tanh, ... of f64 call; a shared library finds it.
    "--iree-llvmcpu-link-embedded=false",
    _KEEP_F64,
)

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("cpu", "this machine's CPU, one thread: the cheapest call", _CPU, "local-sync"),
        Target("cpu-threads", "this machine's CPU, all cores: for large arrays", _CPU, "local-task"),
        Target(
            "cuda",
            "NVIDIA GPUs; cuda:sm_86 names the architecture, and newer GPUs run older ones' modules",
            ("--iree-hal-target-device=cuda", _KEEP_F64),
            "cuda",
            variant="--iree-cuda-target",
            variants="sm_(?:70|75|80|86|87|89|120)",
            default="sm_80",
        ),
        Target(
            "vmvx",
            "IREE's interpreter of small kernels: no machine code, slow, runs anywhere",
            (
                "--iree-hal-target-device=local",
                "--iree-hal-local-target-device-backends=vmvx",
                _KEEP_F64,
            ),
            "local-sync",
        ),
        Target(
            "vulkan",
            "GPUs through Vulkan; vulkan:rdna3 names the architecture",
            ("--iree-hal-target-device=vulkan", _KEEP_F64),
            "vulkan",
            variant="--iree-vulkan-target",
            variants="llvmpipe|adreno|ampere|turing|ada|pascal|rdna[1-4]|valhall[1-4]?|sm_(?:75|80|86|89)",
        ),
    )
}


def find_target(name: str) -> Target:
    """The target of this name, the variant's flag among its flags: `cpu`, `cuda`, `cuda:sm_86`.

    Raises TiducError, listing what there is, for an unknown target or variant.
    """
    base, colon, variant = name.partition(":")
    target = TARGETS.get(base)
    if target is None:
        raise TiducError(f"unknown target {base!r}; known targets: {', '.join(sorted(TARGETS))}")
    if colon and not target.variant:
        raise TiducError(f"target {base!r} has no variants, got {name!r}")
    if colon and not re.fullmatch(target.variants, variant):
        raise TiducError(f"unknown variant {variant!r} of target {base!r}; known: {target.variants}")
    chosen = variant or target.default
    flags = target.flags + ((f"{target.variant}={chosen}",) if chosen else ())
    return replace(target, name=name, flags=flags)
