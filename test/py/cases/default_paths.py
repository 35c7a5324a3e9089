"""Tables of command lines with the default engine, target and executor, as users write them.

`test_default_paths.py` runs the command lines, and the snippets in `default_snippets.py`, in new processes. It also
checks that the tables contain each option of each command, each public name of `tiduc`, `tiduc.runtime` and
`tiduc.eager`, and each script in `examples`.
"""

FILES = {
    "f.mlir": """func.func @main(%a: tensor<f64>, %x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  return %1 : tensor<f64>
}
""",
    "v.mlir": """func.func @main(%w: tensor<4x4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.dot_general %w, %x, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.tanh %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
""",
    "loss.mlir": """func.func @main(%w: tensor<4xf32>, %x: tensor<8x4xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %1 = stablehlo.multiply %0, %0 : tensor<8xf32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}
""",
    "sharded.mlir": """module attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["data"=2]>
  func.func @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>}) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}
""",
    "loop.mlir": """func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %n = stablehlo.constant dense<9> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %c = %x) : tensor<i32>, tensor<f64>
  cond {
    %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.add %i, %one : tensor<i32>
    %2 = stablehlo.sine %c : tensor<f64>
    stablehlo.return %1, %2 : tensor<i32>, tensor<f64>
  }
  return %0#1 : tensor<f64>
}
""",
    "batch.mlir": """func.func @main(%w: tensor<3x2xf32>, %x: tensor<?x3xf32>) -> tensor<?x2xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>
  return %0 : tensor<?x2xf32>
}
""",
    "uses.mlir": """func.func private @other(%x: tensor<f64>) -> tensor<f64>
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = func.call @other(%x) : (tensor<f64>) -> tensor<f64>
  return %0 : tensor<f64>
}
""",
    "library/other.mlir": """func.func @other(%x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.sine %x : tensor<f64>
  return %0 : tensor<f64>
}
""",
    "diagnosed.mlir": """func.func @main(%x: tensor<f64>) -> tensor<f64> {
  // expected-error @+1 {{use of undeclared SSA value name}}
  return %y : tensor<f64>
}
""",
    "reproducer.mlir": """func.func @main(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}
{-#
  external_resources: {
    mlir_reproducer: {
      pipeline: "builtin.module(cse)",
      disable_threading: true,
      verify_each: true
    }
  }
#-}
""",
    "rules.py": "from tiduc import OPSET\n",
    "passes.py": "PASSES = []\n",
    "interesting.sh": '#!/bin/sh\ngrep -q exponential "$1" && exit 1\nexit 0\n',
}
"""Maps names to files in the folder of the command lines.

The folder also contains `net.onnx`, `net.npz`, `digits.onnx` and `mlp.mlir`.
"""

COMMANDS: dict[str, str] = {
    "jvp": "f.mlir",
    "vjp": "f.mlir",
    "grad": "f.mlir",
    "hvp": "f.mlir",
    "split": "f.mlir",
    "train-step": "digits.onnx --loss softmax-cross-entropy",
    "train": "batch_step.vmfb --data batches.npz --state batch_state.npz",
    "export": "digits.onnx step_state.npz -o exported.onnx",
    "lora": "lora_state.npz --adapters adapters",
    "jacobian": "v.mlir",
    "hessian": "f.mlir",
    "laplacian": "f.mlir",
    "lagrangian": "v.mlir",
    "gauss-newton": "v.mlir",
    "second-directional": "v.mlir",
    "jet": "f.mlir --order 3",
    "batch": "f.mlir --batch-size 3",
    "import": "digits.onnx",
    "opt": "f.mlir",
    "link": "uses.mlir library/other.mlir",
    "shard": "loss.mlir --mesh data=4 --shard x=data",
    "reduce": "f.mlir --test ./interesting.sh",
    "compile": "f.mlir",
    "run": "f.mlir --input 2 --input 0.5",
    "size": "f.vmfb",
    "cache": "info",
    "targets": "",
    "profile": "f.mlir",
    "trace": "f.mlir",
    "calibrate": "",
    "check": "f.mlir",
    "view": "f.mlir",
    "explain": "f.mlir",
    "ops": "",
    "passes": "",
    "dialect": "",
}
"""Maps commands to their arguments without options.

The options of a group are appended, unless `OTHERWISE` has a command line for them.
"""

VALUES: dict[str, str] = {
    "--accumulate": "2",
    "--adapters": "adapters",
    "--alpha": "4",
    "--batch": "3",
    "--batch-size": "4",
    "--beta1": "0.8",
    "--beta2": "0.99",
    "--budget": "min",
    "--checkpoint": "run.safetensors",
    "--clip-norm": "1",
    "--compressed": "csr",
    "--compile-memory": "8000",
    "--compile-timeout": "600",
    "--constant": "k=1xi64=0",
    "--data": "batches.npz",
    "--decay": "*.weight",
    "--derivative": "vjp",
    "--dtype": "as-is",
    "--dump-intermediates": "stages",
    "--emit": "bytecode",
    "--engine": "reference",
    "--end-rate": "1e-4",
    "--entry": "main",
    "--epochs": "2",
    "--epsilon": "1e-7",
    "--equal-within": "8",
    "--every": "0",
    "--expect": "mlp_f32.npz",
    "--format": "text",
    "--freeze": "*.bias",
    "--fully-shard": "data",
    "--graph": "main",
    "--identity": "a-model",
    "--in-axes": "none",
    "--infer": "digits.onnx",
    "--input": "random",
    "--iree-flag": "--iree-opt-level=O2",
    "--lapack": "loops",
    "--load-passes": "passes.py",
    "--loop-memory": "log",
    "--lora": "6",
    "--loss": "mse",
    "--memory": "min",
    "--merge": "merged.npz",
    "--mesh": "data=4",
    "--metrics": "metrics.jsonl",
    "--mlir-elide-elementsattrs-if-larger": "8",
    "--mlir-pass-pipeline-crash-reproducer": "failed.mlir",
    "--mlir-print-ir-after": "lower",
    "--mlir-print-ir-before": "cse",
    "--mlir-print-ir-tree-dir": "tree",
    "--mode": "forward",
    "--modes": "fwd,rev",
    "--momentum": "0.8",
    "--optimizer": "adamw",
    "--order": "2",
    "--out-axes": "0",
    "--output": "written",
    "--parameters": "w.safetensors",
    "--processes": "2",
    "--pass-pipeline": "tidu-import,tidu-linearize,cse",
    "--plot": "loss.png",
    "--quantize": "int8",
    "--rank": "2",
    "--rate": "0.01",
    "--rtol": "1e-3",
    "--rules": "rules.py",
    "--save": "trained.npz",
    "--schedule": "cosine",
    "--run-reproducer": "",
    "--search-path": "library",
    "--seed": "3",
    "--shard": "x=data",
    "--size": "batch=4",
    "--sparsity": "auto",
    "--state": "state.npz",
    "--stop-after": "import",
    "--target": "cpu-threads",
    "--test": "./interesting.sh",
    "--test-arg": "exponential",
    "--test-timeout": "60",
    "--timeout": "60",
    "--train": "*",
    "--validate": "batches.npz",
    "--warm-up": "1",
    "--weight-decay": "0.1",
    "--weights": "weights.npz",
    "--wrt": "0",
}
"""Maps options that require a value to a value."""

GROUPS: tuple[tuple[str, ...], ...] = (
    ("--lift-constants", "--relu", "--equal-within", "--straight-through", "--trust", "--size", "--constant"),
    ("--entry", "--wrt", "--rules", "--inline", "--loop-memory", "--memory", "--output", "--emit"),
    ("--mlir-print-ir-after-all", "--timing", "--mlir-print-ir-before-all", "--mlir-print-ir-module-scope"),
    ("--mlir-print-ir-after", "--mlir-print-ir-before", "--mlir-pass-statistics", "--mlir-print-debuginfo"),
    ("--stop-after",),
    ("--json",),
    ("--batch", "--conjugate"),
    ("--value", "--gradient", "--compressed"),
    ("--product",),
    ("--calls", "--trace"),
    ("--cache", "--compile-timeout", "--compile-memory", "--lapack"),
    ("--no-cache", "--no-fast", "--no-fold", "--no-verify-each"),
    ("--target", "--fast", "--iree-flag", "--dump-intermediates", "--verbose"),
    ("--assume-finite",),
    ("--engine", "--seed", "--dtype", "--modes", "--rtol", "--order"),
    ("--expect",),
    (
        "--optimizer",
        "--beta1",
        "--beta2",
        "--epsilon",
        "--weight-decay",
        "--decay",
        "--clip-norm",
        "--accumulate",
    ),
    ("--lora", "--rank", "--alpha", "--quantize"),
    ("--infer", "--identity"),
    (
        "--epochs",
        "--rate",
        "--schedule",
        "--warm-up",
        "--end-rate",
        "--validate",
        "--save",
        "--metrics",
        "--plot",
    ),
    ("--checkpoint", "--every"),
    ("--adapters", "--merge"),
    ("--momentum", "--train", "--freeze", "--state", "--loss"),
    ("--mode", "--sparsity", "--derivatives", "--in-axes", "--out-axes", "--batch-size"),
    ("--weights",),
    ("--parameters",),
    (
        "--pass-pipeline",
        "--dump-pass-pipeline",
        "--verify-each",
        "--verify-roundtrip",
        "--allow-unregistered-dialect",
    ),
    (
        "--load-passes",
        "--split-input-file",
        "--mlir-print-op-generic",
        "--mlir-elide-elementsattrs-if-larger",
    ),
    ("--emit-bytecode", "--mlir-print-ir-after-change", "--mlir-print-ir-after-failure"),
    ("--mlir-print-ir-tree-dir", "--mlir-pass-pipeline-crash-reproducer"),
    ("--list-passes",),
    ("--show-dialects",),
    ("--verify-diagnostics",),
    ("--run-reproducer",),
    ("--search-path",),
    ("--mesh",),
    ("--shard", "--fully-shard"),
    ("--sharding",),
    ("--processes",),
    ("--test", "--test-arg", "--timeout", "--test-timeout"),
    ("--derivative", "--graph", "--fold", "--format"),
    ("--budget",),
    ("--check-memory",),
    ("--only", "--first-bad", "--iterations", "--limit", "--picture"),
    ("--markdown",),
    ("--irdl",),
    ("--input",),
)
"""Groups of options for one command line. Options that the command does not have are left out."""

OTHERWISE: dict[tuple[str, str], str] = {
    ("batch", "--in-axes"): "batch f.mlir --batch-size 3 --in-axes a=0 --out-axes 0",
    ("batch", "--batch-size"): "batch f.mlir --batch-size 3",
    ("check", "--expect"): "check mlp_f32.mlir --expect mlp_f32.npz",
    ("calibrate", "--target"): "calibrate --target cpu -o rates.json",
    ("trace", "--weights"): "trace imported.mlir --weights imported.npz",
    (
        "trace",
        "--only",
    ): "trace f.mlir --only exponential --first-bad --iterations 2 --limit 1 --picture trace.svg",
    ("profile", "--calls"): "profile f.mlir --calls 2 --trace trace.json --json",
    (
        "compile",
        "--entry",
    ): "compile f.mlir --entry main --rules rules.py --memory min --emit vmfb -o out.vmfb",
    ("compile", "--assume-finite"): "compile f.mlir --assume-finite --emit static-library -o finite.o",
    ("compile", "--parameters"): "compile v.mlir --parameters w.safetensors -o out.vmfb",
    ("compile", "--stop-after"): "compile f.mlir --stop-after legalize",
    ("grad", "--batch"): "grad f.mlir --conjugate",
    ("import", "--emit"): "import digits.onnx --emit text -o out.mlir",
    (
        "import",
        "--lift-constants",
    ): "import dynamic.onnx --lift-constants --equal-within 8 --relu --straight-through --trust --size batch=4 "
    "--constant k=1xi64=2",
    ("jet", "--derivatives"): "jet f.mlir --order 3 --derivatives --wrt x",
    ("jacobian", "--mode"): "jacobian v.mlir --wrt x --mode reverse --sparsity auto",
    (
        "train",
        "--target",
    ): "train batch_step.vmfb --data batches.npz --state batch_state.npz --batch 4 --target cpu",
    ("train", "--state"): "train batch_step.vmfb --data batches.npz --state batch_state.npz",
    (
        "export",
        "--trust",
    ): "export dynamic.onnx dynamic_state.npz --trust --size batch=4 --constant k=1xi64=2 -o with.onnx",
    ("export", "--output"): "export digits.onnx step_state.npz --output exported.npz",
    ("lora", "--adapters"): "lora lora_state.npz --adapters adapters --merge merged.npz",
    ("opt", "--run-reproducer"): "opt reproducer.mlir --run-reproducer",
    ("opt", "--verify-diagnostics"): "opt diagnosed.mlir --verify-diagnostics",
    (
        "opt",
        "--load-passes",
    ): "opt f.mlir --load-passes passes.py --split-input-file --cse --mlir-print-op-generic "
    "--mlir-elide-elementsattrs-if-larger 8",
    ("run", "--input"): "run f.vmfb --input random --input 1",
    ("run", "--parameters"): "run v.mlir --parameters w.safetensors --input 4xf32=1,2,3,4",
    ("run", "--weights"): "run imported.mlir --weights imported.npz --input random",
    ("run", "--processes"): "run sharded.mlir --processes 2 --engine xla --input random",
    ("explain", "--sharding"): "explain sharded.mlir --sharding",
    ("shard", "--mesh"): "shard loss.mlir --mesh data=4 --shard x=data",
    (
        "split",
        "--entry",
    ): "split f.mlir --entry main --wrt 0 --rules rules.py --loop-memory log --memory min -o parts",
    (
        "train-step",
        "--straight-through",
    ): "train-step dynamic.onnx --trust --size batch=4 --constant k=1xi64=2 --straight-through --loss mse",
    (
        "train-step",
        "--rules",
    ): "train-step digits.onnx --loss softmax-cross-entropy --rules rules.py --memory min --emit static-library "
    "-o digits_step.o",
    (
        "train-step",
        "--momentum",
    ): "train-step digits.onnx --loss softmax-cross-entropy --optimizer momentum --momentum 0.8 "
    "--train * --freeze *.bias --precision bf16 --state state.npz",
    (
        "view",
        "--entry",
    ): "view f.mlir --entry main --wrt 0 --rules rules.py --inline --loop-memory log --memory -o v.txt",
    ("view", "--derivative"): "view f.mlir --derivative vjp --format svg --fold --graph main -o out.svg",
}
"""Maps a command and the first option of a group to a command line.

These command lines are used if the options require other arguments or exclude each other.
"""
