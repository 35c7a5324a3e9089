"""Writes a web page that trains a network and keeps its state: python examples/train_in_a_browser.py digits.html

The page holds a training step of `digits.onnx` as WebAssembly, its initial state and a batch. Each time it is opened,
it trains for five steps and stores the state, as a safetensors file, in the browser's IndexedDB. With `--run FOLDER`,
two processes of Chromium open the page one after the other, with their storage in this folder, and the script prints
the results that the page shows.
"""

import argparse
import base64
import multiprocessing
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from in_a_browser import shown_by_chromium

HERE = Path(__file__).parent
STEPS = 5
PAGE = """<!doctype html>
<title>Training</title>
<pre id="shown"></pre>
<script>
const bytes = data => Uint8Array.from(atob(data), character => character.charCodeAt(0));
const done = request => new Promise((resolve, reject) => {
  request.onsuccess = request.oncomplete = () => resolve(request.result);
  request.onerror = request.onabort = () => reject(request.error);
});

async function storage() {
  const request = indexedDB.open("digits", 1);
  request.onupgradeneeded = () => request.result.createObjectStore("files");
  return done(request);
}

async function load(database) {
  return done(database.transaction("files").objectStore("files").get("state"));
}

async function save(database, file) {
  const transaction = database.transaction("files", "readwrite", {durability: "strict"});
  transaction.objectStore("files").put(file, "state");
  await done(transaction);
}

async function main() {
  const system = new Proxy({}, {get: () => () => 0});
  const {instance} = await WebAssembly.instantiate(bytes(@PROGRAM@), {wasi_snapshot_preview1: system});
  const {memory, malloc, aligned_alloc, net_read, net_write, net_step, net_state_bytes, _initialize} = instance.exports;
  _initialize();
  const view = () => new DataView(memory.buffer);
  const put = data => {
    const place = malloc(data.length);
    new Uint8Array(memory.buffer, place, data.length).set(data);
    return place;
  };
  const state = aligned_alloc(64, view().getUint32(net_state_bytes.value, true));
  const read = file => net_read(state, put(file), file.length);
  const database = await storage();
  const stored = await load(database);
  // The page refuses the stored state if it belongs to another model, or if it is damaged.
  if ((!stored || read(stored)) && read(bytes(@STATE@))) throw "the initial state was refused";

  const images = put(bytes(@IMAGES@)), labels = put(bytes(@LABELS@)), batch = malloc(12), loss = malloc(4), losses = [];
  view().setUint32(batch, images, true);  // the struct net_batch: two pointers and a number
  view().setUint32(batch + 4, labels, true);
  view().setFloat32(batch + 8, @RATE@, true);
  for (let i = 0; i < @STEPS@; i++) {
    const status = net_step(state, batch, loss);
    if (status) throw `the step gave status ${status}`;
    losses.push(view().getFloat32(loss, true).toFixed(5));
  }
  const size = net_write(state, 0, 0), file = malloc(size);
  net_write(state, file, size);
  await save(database, new Uint8Array(memory.buffer, file, size).slice());
  shown.textContent = `${stored ? "continued" : "started"}: losses ${losses.join(" ")}`;
}
main().catch(error => { shown.textContent = `failed: ${error}`; }).then(() => { document.title = shown.textContent; });
</script>
"""


def library(folder: Path) -> bytes:
    """The training step as a WebAssembly module. The folder then has its initial state in `net.safetensors`."""
    step = [
        "train-step",
        str((HERE / "digits.onnx").resolve()),
        "--loss",
        "softmax-cross-entropy",
        "--optimizer",
        "adam",
    ]
    files = ["--target", "wasm32", "--emit", "static-library", "--state", "net.safetensors", "-o", "net.o"]
    subprocess.run([sys.executable, "-m", "tiduc", *step, *files], cwd=folder, check=True, stdout=sys.stderr)
    names = "malloc", "aligned_alloc", "net_read", "net_write", "net_step", "net_state_bytes"
    flags = ["--target=wasm32-wasi", "-mexec-model=reactor", *(f"-Wl,--export={name}" for name in names)]
    compiler = [sys.executable, "-m", "ziglang", "cc", "-std=c11", "-O2", "-s", "-DTIDUC_NO_FILES"]
    subprocess.run([*compiler, *flags, "net.c", "net.o", "-lm", "-o", "net.wasm"], cwd=folder, check=True)
    return (folder / "net.wasm").read_bytes()


def page() -> str:
    """The page, with the program, the initial state and the batch."""

    def quoted(data: bytes) -> str:
        return '"' + base64.b64encode(data).decode() + '"'

    with tempfile.TemporaryDirectory() as folder, np.load(HERE / "digits.npz") as data:
        values = {
            "PROGRAM": quoted(library(Path(folder))),
            "STATE": quoted((Path(folder) / "net.safetensors").read_bytes()),
            "IMAGES": quoted(data["images"].tobytes()),
            "LABELS": quoted(data["labels"].astype(np.int32).tobytes()),
            "RATE": str(float(data["rate"])),
            "STEPS": str(STEPS),
        }
    text = PAGE
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument(
        "--run", type=Path, metavar="FOLDER", help="open the page twice in Chromium, without a window"
    )
    asked = parser.parse_args()
    asked.page.write_text(page())
    if not asked.run:
        return
    with np.load(HERE / "digits.npz") as data:
        for i in range(2):
            print("PyTorch: losses", *(f"{x:.5f}" for x in data["losses"][STEPS * i : STEPS * (i + 1)]))
    for _ in range(2):
        with multiprocessing.get_context("spawn").Pool(1) as chromium:
            print("Chromium:", chromium.apply(shown_by_chromium, (asked.page, asked.run)), flush=True)


if __name__ == "__main__":
    main()
