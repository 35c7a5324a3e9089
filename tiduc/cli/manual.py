"""The parts of the help texts that are not about options: examples for each command, and the closing text."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "jvp": (
        ("Tangents of one input", "tiduc jvp model.mlir --wrt x -o jvp.mlir"),
        ("The linear graph, before graphs are merged", "tiduc jvp model.mlir --stop-after linearize"),
    ),
    "vjp": (
        ("Cotangents of two inputs, by position", "tiduc vjp model.mlir --wrt 0,2 -o vjp.mlir"),
        (
            "Loops that keep checkpoints instead of stacks",
            "tiduc vjp model.mlir --loop-memory log -o vjp.mlir",
        ),
    ),
    "grad": (
        ("The value and the gradient", "tiduc grad loss.mlir --value -o gradient.mlir"),
        (
            "The second derivative, by a pipe",
            "tiduc grad f.mlir --wrt 1 | tiduc grad - --wrt 1",
        ),
    ),
    "hvp": (
        ("The Hessian times a tangent of all inputs", "tiduc hvp loss.mlir -o hvp.mlir"),
        ("The Hessian in one parameter", "tiduc hvp loss.mlir --wrt \"params['w1']\""),
    ),
    "jacobian": (
        (
            "The Jacobian in forward or reverse mode, whichever is cheaper",
            "tiduc jacobian model.mlir --wrt x -o jacobian.mlir",
        ),
        ("The diagonal only", "tiduc jacobian model.mlir --sparsity diagonal"),
        ("The nonzeros, row by row", "tiduc jacobian model.mlir --compressed csr -o jacobian.mlir"),
    ),
    "hessian": (("All four blocks for two inputs", "tiduc hessian loss.mlir --wrt 0,1 -o hessian.mlir"),),
    "lagrangian": (
        (
            "The Hessian of the Lagrangian in x",
            "tiduc lagrangian problem.mlir | tiduc hessian - --wrt x --compressed csc -o hessian.mlir",
        ),
    ),
    "gauss-newton": (
        (
            "The residuals, the gradient and the matrix, weighted",
            "tiduc gauss-newton residuals.mlir --wrt x --value --gradient --weights -o step.mlir",
        ),
        ("The product with a tangent", "tiduc gauss-newton residuals.mlir --wrt x --product -o product.mlir"),
    ),
    "second-directional": (
        ("Along two tangents of x", "tiduc second-directional model.mlir --wrt x -o second.mlir"),
    ),
    "laplacian": (("The Laplacian of a field in its coordinates", "tiduc laplacian field.mlir --wrt x"),),
    "jet": (
        (
            "Taylor coefficients along curves in one input",
            "tiduc jet model.mlir --order 4 --wrt x -o jet.mlir",
        ),
        (
            "Derivatives of orders 0 to 8 of a function of one variable",
            "tiduc jet f.mlir --order 8 --derivatives",
        ),
    ),
    "batch": (
        (
            "The gradient of 32 examples, with shared weights",
            "tiduc batch gradient.mlir --batch-size 32 --in-axes x=0",
        ),
        (
            "The last dimension of both inputs",
            "tiduc batch f.mlir --batch-size 8 --in-axes -1,-1 --out-axes -1",
        ),
    ),
    "split": (("Two programs in a folder", "tiduc split model.mlir --wrt w -o parts"),),
    "train-step": (
        (
            "A module that trains a classifier, and its initial state",
            "tiduc train-step model.onnx --loss softmax-cross-entropy --optimizer adam "
            "--state state.npz -o step.vmfb",
        ),
        (
            "LoRA adapters of rank 8 beside some linear layers",
            "tiduc train-step llama.pt2 --lora '*.q_proj' --rank 8 --alpha 16 --state state.npz -o step.vmfb",
        ),
        (
            "A C library that trains, evaluates and infers",
            "tiduc train-step train.pt2 --infer eval.pt2 --target aarch64 --emit static-library "
            "--state net.safetensors -o net.o",
        ),
    ),
    "train": (
        (
            "Three epochs with a cosine schedule, the best state of a validation, and checkpoints to resume from",
            "tiduc train step.vmfb --state state.safetensors --data train.npz --batch 32 --epochs 3 --schedule cosine "
            "--warm-up 100 --validate valid.npz --save best.safetensors --checkpoint run.safetensors",
        ),
    ),
    "export": (
        ("An ONNX file with the trained weights", "tiduc export model.onnx best.safetensors -o trained.onnx"),
    ),
    "lora": (
        (
            "Files of peft, and weights with the adapters added",
            "tiduc lora trained.safetensors --adapters adapters --merge weights.safetensors",
        ),
    ),
    "import": (
        ("ONNX, its weights as inputs", "tiduc import model.onnx --weights weights.npz -o model.mlir"),
        ("PyTorch, a batch of eight", "tiduc import model.pt2 -o model.mlir"),
    ),
    "opt": (
        ("Passes of both kinds", "tiduc opt f.mlir --pass-pipeline='tidu-import,tidu-linearize{wrt=x},cse'"),
        (
            "Passes as flags, and the IR after each",
            "tiduc opt f.mlir --tidu-grad=wrt=x --cse --mlir-print-ir-after-all",
        ),
        (
            "A file that reproduces a failure",
            "tiduc opt f.mlir --tidu-vjp --mlir-pass-pipeline-crash-reproducer=failed.mlir",
        ),
        ("Read and verify", "tiduc opt f.mlir -o checked.mlir"),
    ),
    "link": (
        ("Two files", "tiduc link main.mlir library.mlir -o whole.mlir"),
        ("A file, and the files that it refers to", "tiduc link main.mlir --search-path modules"),
    ),
    "shard": (
        (
            "Eight devices: the batch among four, the weights among two",
            "tiduc shard loss.mlir --mesh data=4,model=2 --shard x=data --shard w=,model -o sharded.mlir",
        ),
    ),
    "reduce": (
        ("What does not compile", "tiduc reduce f.mlir --test 'tiduc compile -o /dev/null' -o small.mlir"),
        ("By a script, as for mlir-reduce", "tiduc reduce f.mlir --test ./interesting.sh --timeout 60"),
    ),
    "compile": (
        ("For this CPU", "tiduc compile gradient.mlir -o gradient.vmfb"),
        (
            "A static library for a microcontroller",
            "tiduc compile net.mlir --target cortex-m4 --emit static-library -o net.o",
        ),
        ("For a GPU, several at once", "tiduc compile step.mlir loss.mlir --target cuda:sm_86 -o modules"),
    ),
    "run": (
        ("Arrays on the command line", "tiduc run f.mlir --input 4xf32=1,2,3,4 --input 0.5"),
        (
            "Arrays in a file, and results too",
            "tiduc run gradient.vmfb --input '@data.npz:input.*' -o out.npz",
        ),
    ),
    "size": (("Code, constants and memory, by function", "tiduc size gradient.vmfb"),),
    "cache": (("Its folder, size and number of modules", "tiduc cache info"),),
    "targets": (("All targets and their devices", "tiduc targets --json"),),
    "trace": (
        (
            "The op that made the first NaN of a gradient",
            "tiduc trace loss.mlir --derivative vjp --input @arguments.npz --first-bad",
        ),
        ("Two ops, with their arrays in a file", "tiduc trace model.mlir --only 12 --only tanh -o trace.npz"),
    ),
    "profile": (
        ("The gradient's dispatches", "tiduc grad loss.mlir | tiduc profile -"),
        ("A trace for Chrome", "tiduc profile model.mlir --trace trace.json"),
    ),
    "calibrate": (("Rates for this CPU", "tiduc calibrate -o costs.json"),),
    "check": (
        ("Random arguments", "tiduc check model.mlir"),
        ("Second derivatives too", "tiduc check model.mlir --order 2"),
        (
            "Against stored numbers, by the reference interpreter",
            "tiduc check model.mlir --expect numbers.npz --engine reference",
        ),
    ),
    "view": (
        ("A page to explore", "tiduc view model.mlir -o model.html"),
        (
            "The graphs of a VJP, before they are merged",
            "tiduc view model.mlir --derivative vjp -o vjp.svg",
        ),
        ("One function, as text", "tiduc view model.mlir --graph attention"),
    ),
    "explain": (
        ("With respect to one input", "tiduc explain model.mlir --wrt x"),
        ("As JSON, for other programs", "tiduc explain model.mlir --json -o costs.json"),
    ),
    "ops": (("As JSON, for other programs", "tiduc ops --json -o ops.json"),),
    "passes": (("All passes with their options", "tiduc passes"),),
    "dialect": (("For other tools of MLIR", "tiduc dialect --irdl -o tidu.irdl.mlir"),),
}
"""Maps each command to examples. An example is a purpose and a command line."""

EPILOG = """\b
Examples:
  tiduc grad model.mlir --wrt 0,2 -o gradient.mlir
  tiduc jvp model.mlir | tiduc compile - -o jvp.vmfb
  tiduc run jvp.vmfb --input 4xf32=1,2,3,4 --input random
  tiduc opt model.mlir --pass-pipeline='tidu-import,tidu-linearize{wrt=x},cse'

FILE is MLIR text, bytecode or a StableHLO portable artifact; - is standard input. Completion of commands,
options, inputs after --wrt and passes: eval "$(_TIDUC_COMPLETE=bash_source tiduc)", with zsh or fish in place of bash.

Exit status: 0; 1 after a diagnostic, or where 'tiduc check' finds a difference; 2 for a wrong command line; 130 on
an interrupt. A file is written whole or not at all.
"""


def epilog(command: str) -> str:
    """Returns the examples of a command, as paragraphs that click does not wrap.

    Returns "" if there are no examples.
    """
    lines = [f"  # {purpose}\n  {line}\n" for purpose, line in EXAMPLES.get(command, ())]
    return "\b\nExamples:\n" + "".join(lines) if lines else ""
