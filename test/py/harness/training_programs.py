"""Runs a C program that trains `examples/digits.onnx` with a static library.

The program also checks the functions in the library's header.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.example_files import EXAMPLES
from tiduc.cli import run as cli

MAIN = """
#include "digits.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static digits_state state;
static float images[4096];
static int32_t labels[64];

int main(int count, char **words) {  // state to load, data, number of steps, state to save
  int status = digits_load(&state, words[1]);
  if (status || count < 5) return status;
  FILE *file = fopen(words[2], "rb");
  if (!file || fread(images, sizeof images, 1, file) != 1 || fread(labels, sizeof labels, 1, file) != 1) return 9;
  fclose(file);
  digits_batch batch = {images, labels, 0.01f};
  digits_loss_batch evaluated = {images, labels};
  digits_infer_batch given = {images};
  static float scores[64][10];
  for (int i = 0; i < atoi(words[3]); i++) {
    float before, loss, mean = 0;
    if ((status = digits_infer(&state, &given, scores[0]))) return status;
    for (int k = 0; k < 64; k++) {
      float total = 0;
      for (int j = 0; j < 10; j++) total += expf(scores[k][j]);
      mean += (logf(total) - scores[k][labels[k]]) / 64;
    }
    if ((status = digits_loss(&state, &evaluated, &before))) return status;
    if ((status = digits_step(&state, &batch, &loss))) return status;
    if (!(fabsf(mean - loss) < 1e-5f) || !(fabsf(before - loss) < 1e-6f)) return 8;  // all by equal weights
    printf("%.9g\\n", loss);
  }
  if (digits_infer_results[0].size != sizeof scores || digits_state_bytes != sizeof state) return 9;
  if (strcmp(digits_arrays[0].name, "0.weight") || digits_arrays[0].rank != 4 || digits_arrays[0].size != 288) return 9;
  if ((status = digits_save(&state, words[4]))) return status;
  static unsigned char written[100000], saved[100000];
  static digits_state back;
  size_t size = digits_write(&state, NULL, 0);
  if (digits_write(NULL, NULL, 0) != size || digits_write(NULL, written, 0) != size) return 7;  // reads no state
  if (digits_write(&state, written, size - 1) != size || written[0]) return 7;  // does not fit
  file = size < sizeof written ? fopen(words[4], "rb") : NULL;
  if (!file || fread(saved, 1, sizeof saved, file) != size) return 7;
  fclose(file);
  if (digits_write(&state, written, size) != size || memcmp(saved, written, size) || written[size]) return 7;
  return digits_read(&back, written, size) || memcmp(&back, &state, sizeof state) ? 7 : 0;
}
"""
"""The C program. Its exit status is 7, 8 or 9 if results are wrong. Otherwise, it is a status of the library."""


def build_digits(folder: Path, target: str, kinds: str = "static-library") -> None:
    """Compiles the library `digits` for a target into a folder.

    The folder also gets the initial state, the program `main.c`, and the data that the program reads.
    """
    model = str(EXAMPLES / "digits.onnx")
    wanted = ["--loss", "softmax-cross-entropy", "--optimizer", "adam", "--emit", kinds, "--infer", model]
    files = ["--target", target, "--state", str(folder / "state.safetensors"), "-o", str(folder / "digits.o")]
    assert cli(["train-step", model, *wanted, *files]) == 0
    (folder / "main.c").write_text(MAIN)
    with np.load(EXAMPLES / "digits.npz") as data:
        (folder / "data").write_bytes(data["images"].tobytes() + data["labels"].astype(np.int32).tobytes())


def run_digits(
    folder: Path, words: Sequence[str], program: Sequence[str] = ("./main",)
) -> tuple[int, list[float]]:
    """Runs the program, and returns its exit status and the loss of each step.

    `words` are the file of the initial state, the number of steps, and the file to which the final state is saved.
    """
    command = [*program, words[0], "data", *words[1:]]
    ended = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    return ended.returncode, [float(line) for line in ended.stdout.split()]
