"""What a suite imports."""

import subprocess
import sys

import pytest

import pytest_llmperf


def test_engines_and_datasets_are_found_by_name():
    """The constructor has its module's name."""
    assert pytest_llmperf.vllm("a", "m", "--x").engine == "vllm"
    assert pytest_llmperf.random("t", num_prompts=3).dataset == "random"


def test_another_name_is_no_attribute():
    """As for any module."""
    with pytest.raises(AttributeError, match="no attribute 'sharegtp'"):
        _ = pytest_llmperf.sharegtp


def test_importing_the_plugin_imports_nothing_heavy():
    """An unused plugin costs nothing: no httpx, numpy, scipy, pyarrow, plotly, jinja2."""
    heavy = ["httpx", "numpy", "scipy", "pyarrow", "plotly", "jinja2", "pynvml", "ijson", "psutil"]
    code = (
        "import sys, pytest_llmperf.plugin\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
