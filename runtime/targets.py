"""The targets, as data: what each tells IREE's compiler, what it lacks, and the device that runs the result."""

import platform
import re
from dataclasses import dataclass, field, replace

from tiduc.dialect.errors import TiducError


@dataclass(frozen=True)
class Target:
    """A name, the compiler's flags, the runtime's device, and what programs for it cannot have.

    `device` is empty where nothing on this kind of machine runs the result.  `lacks` has the element types
    that no op takes, with the reason; `remark` is what else does not work.

    `variants` is a pattern of what may follow the colon, as in `cuda:sm_86`: of what is known to compile,
    since IREE's compiler crashes on names that it does not know.  `variant` are the flags that it goes into.
    """

    name: str
    description: str
    flags: tuple[str, ...]
    device: str
    variant: str = ""
    variants: str = ""
    default: str = ""
    linker: str = ""  # "system": shared libraries, by the linker in IREE's own package
    lacks: dict[str, str] = field(default_factory=dict)
    remark: str = ""


# Without this, IREE makes f32 of every f64, the signature's included, and says nothing.
_KEEP_F64 = "--iree-input-demote-f64-to-f32=false"

_LLVM = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-global-opt-data-tiling=true",  # up to 1.4 times as fast on products of matrices
    _KEEP_F64,
)
# The embedded linker knows no libm, which sin, tanh, ... of f64 call; a shared library finds it.
_SHARED = (*_LLVM, "--iree-llvmcpu-link-embedded=false")

_X86 = (
    "x86-64(?:-v[234])?|znver[1-5]|haswell|broadwell|skylake(?:-avx512)?|cascadelake|icelake-(?:client|server)|"
    "tigerlake|alderlake|sapphirerapids|graniterapids"
)
_ARM = "cortex-a(?:53|55|57|72|76|78)|cortex-x[12]|neoverse-(?:n[12]|v[12])|apple-(?:m1|m2|m3)"
_HERE = _X86 if platform.machine().lower() in ("x86_64", "amd64") else _ARM

_CPU_FLAG = "--iree-llvmcpu-target-cpu={}"

# What the flag --iree-cuda-target=sm_90 cannot say: without it the compiler crashes on that name.
_SM_90 = (
    '--iree-hal-target-device=#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb", '
    '{{iree_codegen.target_info = #iree_gpu.target<arch = "sm_90", features = "+ptx80", wgp = <'
    "compute = fp64|fp32|fp16|int64|int32|int16|int8, storage = b64|b32|b16|b8, subgroup = shuffle|arithmetic, "
    "subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], "
    "max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 166912, "
    "max_workgroup_counts = [2147483647, 65535, 65535]>>}}>]>"
)

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            "cpu",
            "this machine's CPU, one thread, the cheapest call; cpu:generic for any CPU of its kind",
            _SHARED,
            "local-sync",
            variant=_CPU_FLAG,
            variants=f"host|generic|{_HERE}",
            default="host",  # 3 to 4 times as fast as generic
            linker="system",
        ),
        Target(
            "cpu-threads",
            "this machine's CPU, all cores: for large arrays",
            _SHARED,
            "local-task",
            variant=_CPU_FLAG,
            variants=f"host|generic|{_HERE}",
            default="host",
            linker="system",
        ),
        Target(
            "aarch64",
            "64-bit Arm with Linux; aarch64:cortex-a72 names the CPU",
            (*_SHARED, "--iree-llvmcpu-target-triple=aarch64-linux-gnu"),
            "",
            variant=_CPU_FLAG,
            variants=f"generic|{_ARM}",
            default="generic",
            linker="system",
        ),
        Target(
            "armv7",
            "32-bit Arm with Linux and hardware floats",
            (
                *_SHARED,
                "--iree-llvmcpu-target-triple=armv7a-linux-gnueabihf",
                "--iree-llvmcpu-target-float-abi=hard",
                "--iree-llvmcpu-target-cpu=generic",
            ),
            "",
            linker="system",
        ),
        Target(
            "riscv64",
            "64-bit RISC-V with Linux; riscv64:v has the vector extension",
            (
                *_SHARED,
                "--iree-llvmcpu-target-triple=riscv64-linux-gnu",
                "--iree-llvmcpu-target-cpu=generic-rv64",
                "--iree-llvmcpu-target-abi=lp64d",
            ),
            "",
            variant="--iree-llvmcpu-target-cpu-features=+m,+a,+f,+d,+{}",
            variants="c|v",
            default="c",
            linker="system",
        ),
        Target(
            "wasm32",
            "WebAssembly, for emscripten",
            (
                *_LLVM,
                "--iree-llvmcpu-target-triple=wasm32-unknown-emscripten",
                "--iree-llvmcpu-target-cpu=generic",
            ),
            "",
        ),
        Target(
            "cuda",
            "NVIDIA GPUs; cuda:sm_86 names the architecture, and newer GPUs run older ones' modules",
            (_KEEP_F64,),
            "cuda",
            variant="--iree-hal-target-device=cuda --iree-cuda-target={}",
            variants="sm_(?:70|75|80|86|87|89|90|120)",
            default="sm_80",
        ),
        Target(
            "hip",
            "AMD GPUs; hip:gfx1100 names the architecture",
            ("--iree-hal-target-device=hip", _KEEP_F64),
            "hip",
            variant="--iree-rocm-target={}",
            variants="gfx(?:90a|942|950|1100|1101|1200|1201)",
            default="gfx942",
        ),
        Target(
            "metal",
            "Apple's GPUs: source code in Metal's language, compiled where it runs",
            ("--iree-hal-target-device=metal", "--iree-metal-compile-to-metallib=false", _KEEP_F64),
            "metal" if platform.system() == "Darwin" else "",
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
            variant="--iree-vulkan-target={}",
            variants="llvmpipe|adreno|ampere|turing|ada|pascal|rdna[1-4]|valhall[1-4]?|sm_(?:75|80|86|89)",
        ),
    )
}


def find_target(name: str) -> Target:
    """The target of this name, the variant's flags among its flags: `cpu`, `cuda`, `cuda:sm_86`.

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
    if not chosen:
        return replace(target, name=name)
    flags = (_SM_90.format(),) if chosen == "sm_90" else tuple(target.variant.format(chosen).split(" "))
    return replace(target, name=name, flags=target.flags + flags)
