"""Token counts of texts: by a model's own tokenizer, or by an estimate that says it is one.

The only importer of ``tokenizers``, and only when a folder with a tokenizer is given. The
figures never use these counts, they use the server's; a dataset needs them to choose prompts.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmperf.errors import UsageError

if TYPE_CHECKING:
    import tokenizers

    from pytest_llmperf.model.traffic import Tokenizer

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
        """
        return len(self.model.encode(text, add_special_tokens=True))


def tokenizer_for(model: str | Path | None) -> Tokenizer:
    """Return what counts the tokens of a model's texts.

    A folder that holds ``tokenizer.json`` counts exactly, if the package ``tokenizers`` is
    installed (``pytest-llmperf[tokenizers]``); anything else is estimated. Raise UsageError
    for a ``tokenizer.json`` that cannot be read.
    """
    file = Path(model, "tokenizer.json") if model is not None else None
    if file is None or not file.is_file() or find_spec("tokenizers") is None:
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
