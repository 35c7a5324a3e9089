"""Writes a web page that computes the gradient of a network: python examples/in_a_browser.py net.html

The page contains the gradient as a WebAssembly module and needs no server. To make the module, tiduc compiles a static
library, and the C compiler of the Python package ziglang links it. With `--run`, the script opens the page in Chromium,
which is part of the Python package PyQt6-WebEngine, and prints the results that the page shows.
"""

import argparse
import base64
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import tiduc

HERE = Path(__file__).parent
PAGE = """<!doctype html>
<title>The gradient of a network</title>
<pre id="shown"></pre>
<script>
const bytes = data => Uint8Array.from(atob(data), character => character.charCodeAt(0));
async function main() {
  // The C library asks the system for nothing that the page would have to answer.
  const system = new Proxy({}, {get: () => () => 0});
  const {instance} = await WebAssembly.instantiate(bytes(PROGRAM), {wasi_snapshot_preview1: system});
  const {memory, malloc, net, _initialize} = instance.exports;
  _initialize();
  const inputs = INPUTS.map(bytes).map(data => [malloc(data.length), data]);
  const outputs = SIZES.map(size => [malloc(size), size]);
  for (const [place, data] of inputs) new Uint8Array(memory.buffer, place, data.length).set(data);
  const start = performance.now();
  const status = net(...[...inputs, ...outputs].map(([place]) => place));
  const time = performance.now() - start;
  const floats = ([place, size]) => new Float32Array(memory.buffer, place, size / 4);
  const sums = outputs.map(output => floats(output).reduce((x, y) => x + y, 0));
  shown.textContent = `status ${status}, ${time.toFixed(2)} ms; sums: ${sums.map(x => x.toFixed(5)).join(" ")}`;
}
main().catch(error => { shown.textContent = `failed: ${error}`; }).then(() => { document.title = shown.textContent; });
</script>
"""


def linked(program: tiduc.Program) -> bytes:
    """Compiles and links a program to a WebAssembly module, which exports `malloc` and the program's function `net`."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "net.mlir").write_text(str(program))
        library = ["compile", "net.mlir", "--target", "wasm32", "--emit", "static-library", "-o", "net.o"]
        subprocess.run([sys.executable, "-m", "tiduc", *library], cwd=folder, check=True)
        exports = "-Wl,--export=net,--export=malloc"
        flags = ["--target=wasm32-wasi", "-mexec-model=reactor", exports, "-O2", "-s", "-o", "net.wasm"]
        compiler = [sys.executable, "-m", "ziglang", "cc"]
        subprocess.run([*compiler, *flags, "net.c", "net.o", "-lm"], cwd=folder, check=True)
        return (Path(folder) / "net.wasm").read_bytes()


def page_of(program: tiduc.Program, arrays: list[np.ndarray]) -> str:
    """The HTML text of the page. It contains the program, its arguments, and the sizes of its results in bytes."""

    def quoted(data: bytes) -> str:
        return '"' + base64.b64encode(data).decode() + '"'

    # All results are f32, with 4 bytes per element.
    sizes = [4 * int(np.prod(output.type.shape)) for output in program.signature.outputs]
    page = PAGE.replace("PROGRAM", quoted(linked(program))).replace("SIZES", str(sizes))
    return page.replace("INPUTS", "[" + ", ".join(quoted(array.tobytes()) for array in arrays) + "]")


def shown_by_chromium(page: Path, storage: Path | None = None) -> str:
    """Opens a page in Chromium. Returns the title that the page sets when it is done, or its last title after a minute.

    If `storage` is given, Chromium saves the page's local data in this folder.
    """
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    # Chromium's sandbox does not work for the user root.
    os.environ.setdefault("QTWEBENGINE_CHROMIUM_FLAGS", "--disable-gpu --no-sandbox")

    from PyQt6.QtCore import QTimer, QUrl
    from PyQt6.QtWebEngineCore import QWebEnginePage, QWebEngineProfile
    from PyQt6.QtWidgets import QApplication

    application = QApplication(sys.argv[:1])
    titles: list[str] = []
    profile = QWebEngineProfile("kept") if storage else QWebEngineProfile()
    if storage:
        profile.setPersistentStoragePath(str(storage.resolve()))
    opened = QWebEnginePage(profile)
    opened.titleChanged.connect(titles.append)
    opened.titleChanged.connect(lambda title: application.quit() if ":" in title else None)
    opened.load(QUrl.fromLocalFile(str(page.resolve())))
    QTimer.singleShot(60_000, application.quit)
    application.exec()
    del opened  # a page must be deleted before its profile
    return titles[-1] if titles else "no title after a minute"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--run", action="store_true", help="open the page in Chromium, without a window")
    asked = parser.parse_args()
    gradient = tiduc.load(HERE / "mlp_f32.mlir").grad(value=True)
    with np.load(HERE / "mlp_f32.npz") as stored:
        arrays = [stored[f"input.{i}"] for i in range(len(gradient.signature.inputs))]
    asked.page.write_text(page_of(gradient, arrays))
    print("IREE's runtime: sums:", *(f"{np.sum(result):.5f}" for result in gradient.compile()(*arrays)))
    if asked.run:
        print("Chromium:", shown_by_chromium(asked.page))


if __name__ == "__main__":
    main()
