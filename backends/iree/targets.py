"""The targets, as data: what each tells IREE's compiler, what it lacks, and the device that runs the result."""

import platform
from dataclasses import dataclass, field, replace

from tiduc.dialect.errors import TiducError
from tiduc.runtime.placement import usual_device


@dataclass(frozen=True)
class Target:
    """A name, the compiler's flags, the runtime's device, and what programs for it cannot have.

    `device` is empty where nothing on this kind of machine runs the result. `lacks` has the element types
    that no arithmetic takes, each with the variants where it does; `remark` is what else does not work.
    With `spirv`, code is SPIR-V, whose functions are less exact, and of f32 and f16 alone. With `fused`, all CPUs of
    this variant multiply and add in one instruction, so far as it is known.

    `variants` may follow the colon, as in `cuda:sm_86`: those known to compile, since IREE's compiler crashes on
    names that it does not know.  `variant` are the flags that one goes into.
    """

    name: str
    description: str
    flags: tuple[str, ...]
    variant: str = ""
    variants: tuple[str, ...] = ()
    default: str = ""
    linker: str = ""  # "system": shared libraries, by the linker in IREE's own package
    lacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    remark: str = ""
    spirv: bool = False
    fused: bool = False

    @property
    def device(self) -> str:
        """The runtime's device that runs the result on this kind of machine; empty where there is none."""
        return usual_device(self.name)


# Without this, IREE makes f32 of every f64, the signature's included, and says nothing.
_KEEP_F64 = "--iree-input-demote-f64-to-f32=false"

_LLVM = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-loop-vectorization=true",  # with unrolling, 0.65 to 1 times the time without
    "--iree-llvmcpu-loop-unrolling=true",
    _KEEP_F64,
)
TILED = ("--iree-global-opt-data-tiling=true",)
"""For products of large matrices, 0.7 times the time; small ones take up to twice as long."""
# The embedded linker knows no libm, which sin, tanh, ... of f64 call; a shared library finds it.
# So constants, which IREE evaluates while it compiles with the embedded linker, are left to when a module is loaded.
_SHARED = (*_LLVM, "--iree-llvmcpu-link-embedded=false", "--iree-opt-const-eval=false")

KERNELS = (
    "--iree-llvmcpu-stack-allocation-limit=262144",
    "--iree-llvmcpu-disable-distribution=true",
    "--iree-llvmcpu-max-allowed-number-of-native-vectors=2048",
)
"""For modules with loops inside of dispatches, which one thread runs: workers' stacks have 128 KiB.

Where several products are in one dispatch the compiler takes tiles for one of them, now this one, now that, and of the
others vectors of more than the 512 native ones that are its limit: it refused every other time.
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

_WITHOUT_FUSED = "generic", "x86-64", "x86-64-v2"


def _here_fused() -> bool:
    """This machine's CPU multiplies and adds in one instruction; where nothing says so, it does not."""
    if _HERE is _ARM:
        return platform.machine().lower() in ("aarch64", "arm64")
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            flags = next((line.split() for line in file if line.startswith("flags")), [])
    except OSError:
        return False
    return "fma" in flags


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

_F8 = ("f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ")
_VULKAN_OF_F64 = tuple(
    "llvmpipe ampere turing ada pascal rdna1 rdna2 rdna3 rdna4 sm_75 sm_80 sm_86 sm_89".split()
)

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            "cpu",
            "this machine's CPU: one thread, or all cores for much work; cpu:generic for any CPU of its kind",
            _SHARED,
            variant=_CPU_FLAG,
            variants=("host", "generic", *_HERE),
            default="host",  # 3 to 4 times as fast as generic
            linker="system",
        ),
        Target(
            "cpu-threads",
            "this machine's CPU, all cores in any case",
            _SHARED,
            variant=_CPU_FLAG,
            variants=("host", "generic", *_HERE),
            default="host",
            linker="system",
        ),
        Target(
            "aarch64",
            "64-bit Arm with Linux; aarch64:cortex-a72 names the CPU",
            (*_SHARED, "--iree-llvmcpu-target-triple=aarch64-linux-gnu"),
            variant=_CPU_FLAG,
            variants=("generic", *_ARM),
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
            variant="--iree-llvmcpu-target-cpu-features=+m,+a,+f,+d,+{}",
            variants=("c", "v"),
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
            remark="sine, tanh and the like of f64",
        ),
        Target(
            "cuda",
            "NVIDIA GPUs; cuda:sm_86 names the architecture, and newer GPUs run older ones' modules",
            (_KEEP_F64,),
            variant="--iree-hal-target-device=cuda --iree-cuda-target={}",
            variants=tuple(f"sm_{n}" for n in (70, 75, 80, 86, 87, 89, 90, 120)),
            default="sm_80",
            lacks=dict.fromkeys(_F8, ()),
        ),
        Target(
            "hip",
            "AMD GPUs; hip:gfx1100 names the architecture",
            ("--iree-hal-target-device=hip", _KEEP_F64),
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
            (
                "--iree-hal-target-device=local",
                "--iree-hal-local-target-device-backends=vmvx",
                _KEEP_F64,
            ),
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
    """The target of this name, the variant's flags among its flags: `cpu`, `cuda`, `cuda:sm_86`.

    Raises TiducError, listing what there is, for an unknown target or variant.
    """
    base, colon, variant = name.partition(":")
    usual_device(base)  # which refuses unknown targets
    target = TARGETS[base]
    if colon and not target.variant:
        raise TiducError(f"target {base!r} has no variants, got {name!r}")
    if colon and variant not in target.variants:
        known = ", ".join(target.variants)
        raise TiducError(f"unknown variant {variant!r} of target {base!r}; known: {known}")
    chosen = variant or target.default
    lacks = {element: having for element, having in target.lacks.items() if chosen not in having}
    target = replace(target, name=name, lacks=lacks, fused=_is_fused(base, chosen))
    if not chosen:
        return target
    flags = (_SM_90.format(),) if chosen == "sm_90" else tuple(target.variant.format(chosen).split(" "))
    return replace(target, flags=target.flags + flags)


def _is_fused(base: str, variant: str) -> bool:
    """All CPUs of a variant multiply and add in one instruction."""
    if base in ("aarch64", "riscv64"):
        return True
    if base not in ("cpu", "cpu-threads"):
        return False
    return _here_fused() if variant == "host" else variant not in _WITHOUT_FUSED
