"""Token counts of texts: by a model's own tokenizer, or by an estimate that says it is one.

The only importer of ``tokenizers``, and only when there is a tokenizer's file. A running server
counts too: ``http.ServerTokenizer``. The figures never use these counts, they use the server's; a dataset needs them to choose prompts.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmperf.errors import UsageError

if TYPE_CHECKING:
    import tokenizers

    from pytest_llmperf.model.traffic import Tokenizer

FILE = "tokenizer.json"
HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
BYTES_A_TOKEN = 4
"""English text in common vocabularies has 3.5 to 4.5 bytes a token; code and CJK have fewer."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes of UTF-8 by a constant, rounded up, at least 1."""

    name: str = f"estimate: {BYTES_A_TOKEN} bytes a token"

    def count(self, text: str) -> int:
        """Return the number of tokens that ``text`` may have."""
        size = len(text.encode(errors="surrogatepass"))
        return max(1, -(-size // BYTES_A_TOKEN))


@dataclass(frozen=True, slots=True)
class ModelTokenizer:
    """A ``tokenizer.json``, named by a digest of it: no path of this machine is in the name."""

    name: str
    model: tokenizers.Tokenizer

    def count(self, text: str) -> int:
        """Return the number of tokens, special ones included.

        That is ``len(tokenizer(text).input_ids)`` of Hugging Face's, as vLLM's bench counts.
        Half of a surrogate pair, which the package refuses, counts as what it is shown as.
        """
        readable = text.encode(errors="surrogatepass").decode(errors="replace")
        return len(self.model.encode(readable, add_special_tokens=True))


def _file(model: str | Path, *, hub: bool) -> Path | None:
    """Return a model's ``tokenizer.json``: in its folder, or in the hub's cache on this host.

    The cache is where ``HF_HUB_CACHE`` or ``HF_HOME`` say; of a model's snapshots it is the one
    that ``refs/main`` names, or the only one.
    """
    own = Path(model, FILE)
    if own.is_file():
        return own
    if not hub or not HUB_NAME.fullmatch(str(model)):
        return None
    home = os.environ.get("HF_HOME") or Path("~", ".cache", "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or Path(home, "hub")).expanduser()
    folder = cache / f"models--{str(model).replace('/', '--')}"
    try:
        kept = folder / "snapshots" / (folder / "refs" / "main").read_text().strip() / FILE
    except OSError:
        kept = None
    if kept is not None and kept.is_file():
        return kept
    snapshots = list(folder.glob(f"snapshots/*/{FILE}"))
    return snapshots[0] if len(snapshots) == 1 else None


def tokenizer_for(model: str | Path | None, *, hub: bool = True) -> Tokenizer:
    """Return what counts the tokens of a model's texts.

    A folder that holds ``tokenizer.json`` counts exactly, as does a name like
    ``Qwen/Qwen3-14B`` whose files lie in the cache of Hugging Face's hub, if the package
    ``tokenizers`` is installed (``pytest-llmperf[tokenizers]``); anything else is estimated.
    Nothing is downloaded. ``hub`` False: whatever lies in that cache, it counts for nothing. Raise UsageError for a ``tokenizer.json`` that cannot be read.
    """
    file = None if model is None else _file(model, hub=hub)
    if file is None or find_spec("tokenizers") is None:
        return Estimate()
    from tokenizers import Tokenizer as Reader

    try:
        content = file.read_bytes()
        reader = Reader.from_buffer(content)
    except Exception as error:  # the package raises bare Exceptions
        raise UsageError(f"cannot read the tokenizer {file}: {error}") from error
    # A file may ask for a limit or for padding; Hugging Face's call drops both, and so here.
    reader.no_truncation()
    reader.no_padding()
    return ModelTokenizer(f"tokenizer {hashlib.sha256(content).hexdigest()[:8]}", reader)
