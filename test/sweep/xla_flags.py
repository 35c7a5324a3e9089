"""Flags that reduce XLA's compile time to a third. XLA reads the variable XLA_FLAGS when JAX first uses a device."""

XLA_FLAGS = " ".join(
    (
        "--xla_backend_optimization_level=0",
        "--xla_cpu_use_fusion_emitters=false",
        "--xla_cpu_parallel_codegen_split_count=1",
        "--xla_cpu_multi_thread_eigen=false",
    )
)
