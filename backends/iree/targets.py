"""The table of targets: the compiler's flags for each target, its limits, and the device that runs its modules."""

import os
import platform
from dataclasses import dataclass, field, replace

from tiduc.dialect.errors import TiducError
from tiduc.runtime.placement import usual_device


@dataclass(frozen=True)
class Target:
    """A target: its name, the compiler's flags, the runtime's device, and the limits of its programs.

    - `device` (a property) is empty if this kind of machine cannot run the module.
    - `lacks` maps each element type for which the target has no arithmetic to the variants that do have it. `remark`
      says what else does not work.
    - `spirv`: code is SPIR-V, whose math functions are less exact and exist for f32 and f16 only.
    - `tensor_cores`: NVIDIA's GPUs of this variant multiply f16 and bf16 with instructions for matrices.
    - `fused`: all CPUs of this variant are known to have a fused multiply-add instruction.
    - `vectors`: the vector registers of CPUs, as in `Settings`.
    - `variants`: the names that may follow a colon, as in `cuda:sm_86`. Only variants known to compile are listed,
      because IREE's compiler crashes on unknown variants. `default` is the variant of a name without a colon, and
      `variant` is a template of the flags for a variant.
    """

    name: str
    description: str
    flags: tuple[str, ...]
    variant: str = ""
    variants: tuple[str, ...] = ()
    default: str = ""
    shared: bool = False  # the code is a shared library, linked with the linker in IREE's own package
    lacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    remark: str = ""
    spirv: bool = False
    tensor_cores: bool = False
    fused: bool = False
    vectors: str = ""
    library: bool = False  # IREE's runtime cannot load modules; only static libraries are supported

    @property
    def device(self) -> str:
        """The runtime's device that runs compiled modules on this kind of machine. Empty if there is none."""
        return usual_device(self.name)


# Without this flag, IREE silently demotes every f64 to f32, even in the signature.
_KEEP_F64 = "--iree-input-demote-f64-to-f32=false"

_LLVM = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-loop-vectorization=true",  # with this and the next flag, programs take 0.65 to 1 times as long
    "--iree-llvmcpu-loop-unrolling=true",
    _KEEP_F64,
)
REASSOCIATED = ("--iree-llvmcpu-reassociate-fp-reductions=true",)
"""Makes IREE vectorize float reductions, which then take 0.5 to 1 times as long. A sum of only -0 may become +0."""
IN_ORDER = ("--iree-stream-partitioning-favor=debug",)
"""Makes independent dispatches run one after the other, in the order of the program, instead of concurrently.

IREE then reuses the memory of a value right after the dispatch that reads it last. Concurrency would gain nothing:
large dispatches have work for all threads, and small dispatches are not faster. IREE's setting for least memory has no
effect.
"""
TILED = ("--iree-global-opt-data-tiling=true",)
"""Turns on data tiling. Products of large matrices then take 0.7 times as long and twice the memory (`work.py`)."""
# sin, tanh, ... of f64 call libm. A shared library finds libm, but IREE's embedded linker does not. IREE would use the
# embedded linker to evaluate constant expressions at compile time. With this flag, they are evaluated when a module is
# loaded.
_NO_CONSTANTS = "--iree-opt-const-eval=false"
_SHARED = (*_LLVM, "--iree-llvmcpu-link-embedded=false", _NO_CONSTANTS)

_NO_NARROW_DIVISIONS = "--opt-disable=correlated-propagation", "--opt-bisect-verbose=false"
"""Flags that keep LLVM from dividing indices as vectors of 16-bit integers, which its CUDA back end cannot compile.

LLVM does so, for example, in code that reverses the window of a convolution's kernel.
"""

PEELED = ("--iree-llvmcpu-vector-pproc-strategy=peel",)
"""Makes IREE compute the elements that do not fill a vector in a separate loop, instead of by masked loads and stores.

Masked stores are slow on x86 CPUs without AVX-512. Elementwise ops on arrays of uneven sizes then take 0.5 of the time,
and gradients of convolutional networks 0.9 to 1.
"""

IN_TILES = ("--iree-llvmcpu-stack-allocation-limit=131072",)
"""Lets the panels of products in tiles (`fast/products/tiles.py`) fill a worker's whole stack of 128 KiB."""

INLINED = ("--iree-hal-preprocess-executables-with=builtin.module(inline{default-pipeline=},symbol-dce)",)
"""Inlines the functions that compute one workgroup of a dispatch into the dispatches (`emit/workgroups.py`)."""

KERNELS = (
    "--iree-llvmcpu-stack-allocation-limit=262144",
    "--iree-llvmcpu-disable-distribution=true",
    "--iree-llvmcpu-max-allowed-number-of-native-vectors=2048",
)
"""For modules with loops inside dispatches. The calling thread runs them, because workers' stacks have only 128 KiB.

If a dispatch has several products, the compiler chooses tile sizes for one of them, not always the same one. Another
product may then need a vector of more than 512 native vectors, which is the default limit. With this limit, half of the
compilations of such a dispatch failed.
"""

SMALL_KERNELS = ("--iree-llvmcpu-stack-allocation-limit=65536", *KERNELS[1:])
"""For modules that have both loops inside dispatches and dispatches for several threads.

A dispatch may use half of a worker's stack of 128 KiB.
"""

_X86 = tuple(
    "x86-64 x86-64-v2 x86-64-v3 x86-64-v4 znver1 znver2 znver3 znver4 znver5 haswell broadwell skylake "
    "skylake-avx512 cascadelake icelake-client icelake-server tigerlake alderlake sapphirerapids "
    "graniterapids".split()
)
_ARM = tuple(
    "cortex-a53 cortex-a55 cortex-a57 cortex-a72 cortex-a76 cortex-a78 cortex-x1 cortex-x2 "
    "neoverse-n1 neoverse-n2 neoverse-v1 neoverse-v2 apple-m1 apple-m2 apple-m3".split()
)
_HERE = _X86 if platform.machine().lower() in ("x86_64", "amd64") else _ARM

_WITHOUT_TENSOR_CORES = "sm_70", "sm_75"
"""NVIDIA's architectures without the instruction that multiplies f16 and bf16 matrices of 16 by 8 by 16 elements."""

_WITHOUT_FUSED = "generic", "x86-64", "x86-64-v2"


_WIDE = (
    "x86-64-v4 znver4 znver5 skylake-avx512 cascadelake icelake-client icelake-server tigerlake "
    "sapphirerapids graniterapids"
).split()


def _here(feature: str) -> bool:
    """Whether this machine has an x86 CPU that is known to have a feature. Names are those of Linux's /proc/cpuinfo."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            flags = next((line.split() for line in file if line.startswith("flags")), [])
    except OSError:
        return False
    return feature in flags


def _here_fused() -> bool:
    """Whether this machine's CPU is known to have a fused multiply-add instruction."""
    if _HERE is _ARM:
        return platform.machine().lower() in ("aarch64", "arm64")
    return _here("fma")


_CPU_FLAG = "--iree-llvmcpu-target-cpu={}"


def _linux(
    name: str,
    description: str,
    triple: str,
    *flags: str,
    variant: str = "",
    variants: tuple[str, ...] = (),
    default: str = "",
) -> Target:
    """A target whose code is a shared library for Linux."""
    flags = *_SHARED, f"--iree-llvmcpu-target-triple={triple}", *flags
    return Target(name, description, flags, variant, variants, default, shared=True)


def _bare(name: str, description: str, triple: str, *flags: str) -> Target:
    """A target without an operating system, which supports only static libraries."""
    flags = f"--iree-llvmcpu-target-triple={triple}", _NO_CONSTANTS, *flags
    return Target(name, description, (*_LLVM, *flags), library=True, remark=_ONLY)


_ONLY = "modules: static libraries only"
_LIBM = "sine, tanh and the like of f64, except in a static library"
_CPU = Target(
    "cpu",
    "this machine's CPU: one thread, or all cores for much work; cpu:generic for any CPU of its kind",
    _SHARED,
    variant=_CPU_FLAG,
    variants=("host", "generic", *_HERE),
    default="host",  # 3 to 4 times as fast as generic
    shared=True,
)

# This flag describes sm_90 in full, because the compiler crashes with the flag --iree-cuda-target=sm_90.
_SM_90 = (
    '--iree-hal-target-device=#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb", '
    '{{iree_codegen.target_info = #iree_gpu.target<arch = "sm_90", features = "+ptx80", wgp = <'
    "compute = fp64|fp32|fp16|int64|int32|int16|int8, storage = b64|b32|b16|b8, subgroup = shuffle|arithmetic, "
    "subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], "
    "max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 166912, "
    "max_workgroup_counts = [2147483647, 65535, 65535]>>}}>]>"
)

_F8 = ("f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ")
_VULKAN_OF_F64 = tuple(
    "llvmpipe ampere turing ada pascal rdna1 rdna2 rdna3 rdna4 sm_75 sm_80 sm_86 sm_89".split()
)

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        _CPU,
        replace(_CPU, name="cpu-threads", description="this machine's CPU, all cores in any case"),
        _linux(
            "aarch64",
            "64-bit Arm with Linux; aarch64:cortex-a72 names the CPU",
            "aarch64-unknown-linux-gnu",
            variant=_CPU_FLAG,
            variants=("generic", *_ARM),
            default="generic",
        ),
        _linux(
            "aarch64-android",
            "64-bit Arm with Android; aarch64-android:cortex-a76 names the CPU",
            "aarch64-linux-android",
            variant=_CPU_FLAG,
            variants=("generic", *_ARM),
            default="generic",
        ),
        _linux(
            "armv7",
            "32-bit Arm with Linux and hardware floats",
            "armv7a-unknown-linux-gnueabihf",
            "--iree-llvmcpu-target-float-abi=hard",
            _CPU_FLAG.format("generic"),
        ),
        _bare(
            "cortex-m4",
            "Arm Cortex-M4 microcontrollers with their floating-point unit",
            "thumbv7em-unknown-none-eabihf",
            _CPU_FLAG.format("cortex-m4"),
            "--iree-llvmcpu-target-float-abi=hard",
        ),
        _bare(
            "riscv32",
            "32-bit RISC-V microcontrollers without floating-point units: rv32imac",
            "riscv32-unknown-none-elf",
            _CPU_FLAG.format("generic-rv32"),
            "--iree-llvmcpu-target-abi=ilp32",
            "--iree-llvmcpu-target-cpu-features=+m,+a,+c",
        ),
        _linux(
            "riscv64",
            "64-bit RISC-V with Linux; riscv64:v has the vector extension",
            "riscv64-unknown-linux-gnu",
            _CPU_FLAG.format("generic-rv64"),
            "--iree-llvmcpu-target-abi=lp64d",
            variant="--iree-llvmcpu-target-cpu-features=+m,+a,+f,+d,+{}",
            variants=("c", "v"),
            default="c",
        ),
        Target(
            "wasm32",
            "WebAssembly, for emscripten",
            (
                *_LLVM,
                _NO_CONSTANTS,
                "--iree-llvmcpu-target-triple=wasm32-unknown-emscripten",
                _CPU_FLAG.format("generic"),
            ),
            remark=_LIBM,
        ),
        _linux(
            "x86_64",
            "64-bit x86 with Linux; x86_64:x86-64-v3 names the level or the CPU",
            "x86_64-unknown-linux-gnu",
            variant=_CPU_FLAG,
            variants=_X86,
            default="x86-64",
        ),
        Target(
            "cuda",
            "NVIDIA GPUs; cuda:sm_86 names the architecture, and newer GPUs run older ones' modules",
            (_KEEP_F64, _NO_CONSTANTS, *_NO_NARROW_DIVISIONS),
            variant="--iree-hal-target-device=cuda --iree-cuda-target={}",
            variants=tuple(f"sm_{n}" for n in (70, 75, 80, 86, 87, 89, 90, 120)),
            default="sm_80",
            lacks=dict.fromkeys(_F8, ()),
        ),
        Target(
            "hip",
            "AMD GPUs; hip:gfx1100 names the architecture",
            ("--iree-hal-target-device=hip", _KEEP_F64, _NO_CONSTANTS),
            variant="--iree-rocm-target={}",
            variants=("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1200", "gfx1201"),
            default="gfx942",
            lacks=dict.fromkeys(_F8[:2], ("gfx950", "gfx1200", "gfx1201"))
            | dict.fromkeys(_F8[2:], ("gfx942",)),
        ),
        Target(
            "metal",
            "Apple's GPUs: source code in Metal's language, compiled where it runs",
            ("--iree-hal-target-device=metal", "--iree-metal-compile-to-metallib=false", _KEEP_F64),
            lacks=dict.fromkeys(("f64", "complex<f64>"), ()),
            spirv=True,
        ),
        Target(
            "vmvx",
            "IREE's interpreter of small kernels: no machine code, slow, runs anywhere",
            ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=vmvx", _KEEP_F64),
            lacks=dict.fromkeys(("f16", "bf16", "complex<f32>", "complex<f64>"), ()),
        ),
        Target(
            "vulkan",
            "GPUs through Vulkan; vulkan:rdna3 names the architecture",
            ("--iree-hal-target-device=vulkan", _KEEP_F64),
            variant="--iree-vulkan-target={}",
            variants=tuple(
                "llvmpipe adreno ampere turing ada pascal rdna1 rdna2 rdna3 rdna4 "
                "valhall valhall1 valhall2 valhall3 valhall4 sm_75 sm_80 sm_86 sm_89".split()
            ),
            lacks=dict.fromkeys(("f64", "complex<f64>"), _VULKAN_OF_F64),
            remark="sine, exponential and the like of f64",
            spirv=True,
        ),
    )
}


def find_target(name: str) -> Target:
    """Returns the target of a name such as `cpu`, `cuda` or `cuda:sm_86`, with the flags of the variant.

    Raises `TiducError`, which lists the known names, for an unknown target or variant.
    """
    base, colon, variant = name.partition(":")
    usual_device(base)  # raises TiducError for an unknown target
    target = TARGETS[base]
    if colon and not target.variant:
        raise TiducError(f"target {base!r} has no variants, got {name!r}")
    if colon and variant not in target.variants:
        known = ", ".join(target.variants)
        raise TiducError(f"unknown variant {variant!r} of target {base!r}; known: {known}")
    chosen = variant or target.default
    if chosen == "host":
        chosen = _host(target)
    lacks = {element: having for element, having in target.lacks.items() if chosen not in having}
    vectors = _vectors(base, chosen) if target.shared else ""
    target = replace(
        target,
        name=name,
        lacks=lacks,
        tensor_cores=base == "cuda" and chosen not in _WITHOUT_TENSOR_CORES,
        fused=_is_fused(base, chosen),
        vectors=vectors,
    )
    if not chosen:
        return target
    flags = (_SM_90.format(),) if chosen == "sm_90" else tuple(target.variant.format(chosen).split(" "))
    return replace(target, flags=target.flags + flags)


def _host(target: Target) -> str:
    """Returns the variant for this machine's CPU: the environment variable TIDUC_HOST_CPU, or `host` if it is not set.

    The variant `host` makes IREE detect the features of the CPU.

    Raises `TiducError` if the variable names an unknown variant.
    """
    named = os.environ.get("TIDUC_HOST_CPU", "host")
    if named not in target.variants:
        known = ", ".join(target.variants)
        raise TiducError(f"TIDUC_HOST_CPU names an unknown CPU, {named!r}; known: {known}")
    return named


def _is_fused(base: str, variant: str) -> bool:
    """Whether all CPUs of a variant are known to have a fused multiply-add instruction."""
    architecture = base.partition("-")[0]
    if architecture in ("aarch64", "riscv64"):
        return True
    if architecture != "cpu":
        return False
    return _here_fused() if variant == "host" else variant not in _WITHOUT_FUSED


def _vectors(base: str, variant: str) -> str:
    """Returns the vector registers of a variant's CPUs, as in `Settings`: 128 bits wide if the width is unknown."""
    here = variant == "host"
    if base.partition("-")[0] == "aarch64" or variant in _ARM or (here and _HERE is _ARM):
        return "128x32"
    if _here("avx512f") if here else variant in _WIDE:
        return "512x32"
    has_256 = _here("avx2") and _here("fma") if here else variant in _X86 and variant not in _WITHOUT_FUSED
    return "256x16" if has_256 else "128x16"
