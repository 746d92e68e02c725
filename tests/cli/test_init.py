from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from pytest_llmperf.cli import _init_files
from pytest_llmperf.cli._init_files import ignoring, server_name, settings_of, write_all
from pytest_llmperf.errors import UsageError

FILES = {
    "suites/test_serving.py",
    "pytest.ini",
    ".github/workflows/llm-performance.yml",
    ".gitignore",
}


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """An empty git repository, and in it."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files_in(folder):
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in found if path.parts[0] != ".git"}


def test_from_an_empty_repository_to_a_verdict(starter):
    """init, then pytest on the simulator: the first night is accepted, a slow one is caught."""
    first, second = starter.sessions
    assert first.returncode == 0, first.stdout
    assert "NO_BASELINE (SIMULATED): qwen3-14b on steady" in first.stdout
    assert "accepted as a night of the baseline: qwen3-14b/steady" in first.stdout
    assert second.returncode == 1, second.stdout
    assert "REGRESSED (SIMULATED): qwen3-14b on steady" in second.stdout


def test_only_baselines_are_left_to_commit(starter):
    """The artifacts of a run are kept out of git."""
    new = subprocess.run(
        ["git", "status", "--short", "-uall"], cwd=starter.path, text=True, capture_output=True, check=True
    ).stdout  # fmt: skip
    names = {line.split(maxsplit=1)[1] for line in new.splitlines() if "__pycache__" not in line}
    (baseline,) = names - FILES
    assert names - {baseline} == FILES
    assert baseline.startswith("baselines/simulated-")


def test_what_to_do_next_is_said(starter):
    """The rehearsal, the plan and the first accepted night, in this order."""
    commands = [line.strip() for line in starter.said.splitlines() if "  pytest " in line]
    assert commands == [
        "pytest suites --llmperf-engine sim --llmperf-launches 1 --llmperf-replays 1 --llmperf-accept",
        "pytest suites -m gpu --llmperf-plan",
        "pytest suites -m gpu --llmperf-accept",
    ]


def test_the_model_names_the_server(call, repository):
    """--model is what is served; the server's name comes of it."""
    assert call("init", "--model", "/models/Llama-3.1-8B/")[0] == 0
    suite = (repository / "suites" / "test_serving.py").read_text()
    assert 'vllm("llama-3.1-8b", "/models/Llama-3.1-8B/", "--max-model-len", "8192")' in suite
    assert "@" not in suite.replace("@pytest", "")
    compile(suite, "test_serving.py", "exec")


@pytest.mark.parametrize(
    ("model", "name"),
    [("Qwen/Qwen3-14B", "qwen3-14b"), ("/m/Weird model!/", "weird-model"), ("/", "server")],
)
def test_server_names(model, name):
    """Letters, digits, dots, dashes: what can be a folder."""
    assert server_name(model) == name


def test_a_model_that_would_break_the_suite_is_refused(call, repository):
    """A quote, say; nothing is written."""
    status, _, err = call("init", "--model", 'x"; import os')
    assert (status, "--model" in err) == (2, True)
    assert files_in(repository) == set()


def test_files_that_are_there_stay(call, repository):
    """They are named, the others are written; --force writes them anew."""
    (repository / "pytest.ini").write_text("[pytest]\naddopts = -ra\n")
    (repository / ".gitignore").write_text("*.pyc")
    _, out, _ = call("init")
    assert "left   pytest.ini" in out
    assert "wrote  suites/test_serving.py" in out
    assert (repository / "pytest.ini").read_text() == "[pytest]\naddopts = -ra\n"
    assert (repository / ".gitignore").read_text() == "*.pyc\n.llmperf/\n"
    assert files_in(repository) == FILES
    _, again, _ = call("init")
    assert "wrote" not in again
    assert "added" not in again
    _, forced, _ = call("init", "--force")
    assert forced.count("wrote") == 3
    assert "addopts" not in (repository / "pytest.ini").read_text()
    assert (repository / ".gitignore").read_text() == "*.pyc\n.llmperf/\n"


@pytest.mark.parametrize("text", [".llmperf\n", "/.llmperf/", "x\n.llmperf/\n"])
def test_artifacts_that_are_ignored_already(tmp_path, text):
    """However .gitignore says it."""
    (tmp_path / ".gitignore").write_text(text)
    assert ignoring(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[tool.pytest.ini_options]\naddopts = "-ra"\n'),
        ("tox.ini", "[pytest]\naddopts = -ra\n"),
        ("setup.cfg", "[tool:pytest]\naddopts = -ra\n"),
        (".pytest.ini", ""),
    ],
)
def test_settings_of_pytest_elsewhere_are_not_hidden(call, repository, name, text):
    """No pytest.ini takes their place, not even with --force; it is said where options go."""
    (repository / name).write_text(text)
    _, out, _ = call("init", "--force")
    assert f"{name} holds pytest's settings" in out
    assert "llmperf_vllm = " in out
    assert files_in(repository) == (FILES - {"pytest.ini"}) | {name}


@pytest.mark.parametrize(
    ("name", "text"),
    [("pyproject.toml", "[tool.ruff]\n"), ("tox.ini", "[tox]\n"), ("setup.cfg", "\x00[")],
)
def test_settings_of_other_tools_are_none_of_pytest_s(tmp_path, name, text):
    """A pytest.ini is needed then."""
    (tmp_path / name).write_text(text)
    assert settings_of(tmp_path) is None


def test_a_pyproject_that_cannot_be_read_is_said(call, repository):
    """Nobody knows whether it holds settings: nothing is written."""
    (repository / "pyproject.toml").write_text("[tool\n")
    status, _, err = call("init")
    assert (status, "pyproject.toml cannot be read" in err) == (2, True)
    assert files_in(repository) == {"pyproject.toml"}


def test_the_github_workflow(call, repository):
    """Nightly on a GPU runner, by hand with another vLLM; hidden artifacts are uploaded."""
    call("init")
    path = repository / ".github" / "workflows" / "llm-performance.yml"
    data = yaml.safe_load(path.read_text())
    triggers = data[True]  # YAML 1.1 reads `on` as true
    assert set(triggers) == {"schedule", "workflow_dispatch"}
    assert set(triggers["workflow_dispatch"]["inputs"]) == {"vllm", "accept"}
    job = data["jobs"]["performance"]
    assert job["runs-on"] == ["self-hosted", "gpu"]
    steps = job["steps"]
    assert any("pytest suites -m gpu" in step.get("run", "") for step in steps)
    (upload,) = [step for step in steps if "upload-artifact" in step.get("uses", "")]
    assert upload["with"]["include-hidden-files"] is True
    # What a person types into a form must not reach a shell as code.
    assert not any("${{" in step.get("run", "") for step in steps)


def test_gitlab(call, repository):
    """A job of its own, included; where a .gitlab-ci.yml is there it is said how."""
    call("init", "--ci", "gitlab")
    job = yaml.safe_load((repository / ".gitlab" / "llm-performance.yml").read_text())
    assert "pytest suites -m gpu" in job["llm-performance"]["script"][-1]
    included = yaml.safe_load((repository / ".gitlab-ci.yml").read_text())
    assert included == {"include": [{"local": ".gitlab/llm-performance.yml"}]}
    _, out, _ = call("init", "--ci", "gitlab")
    assert "add to .gitlab-ci.yml" in out


def test_no_ci(call, repository):
    """--ci none."""
    call("init", "--ci", "none")
    assert files_in(repository) == FILES - {".github/workflows/llm-performance.yml"}


def test_a_workflow_belongs_at_the_top(call, repository, monkeypatch):
    """Below it no CI would find it; without one, any folder will do."""
    (repository / "part").mkdir()
    monkeypatch.chdir(repository / "part")
    status, _, err = call("init")
    assert (status, f"inside the repository {repository}" in err) == (2, True)
    assert call("init", "--ci", "none")[0] == 0
    assert files_in(repository) == {
        "part/suites/test_serving.py",
        "part/pytest.ini",
        "part/.gitignore",
    }


def test_a_failure_leaves_nothing_half(call, repository):
    """`suites` is a file: no folder can be made there, and no other file has come."""
    (repository / "suites").write_text("notes")
    status, _, err = call("init")
    assert (status, "Nothing was changed" in err) == (2, True)
    assert files_in(repository) == {"suites"}


def test_what_was_overwritten_comes_back(tmp_path):
    """The second file cannot take its place, a folder stands there: the first is as it was."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("before")
    (second / "full").mkdir(parents=True)
    with pytest.raises(UsageError, match="second"):
        write_all({first: "after", tmp_path / "new" / "deep" / "file": "x", second: "y"})
    assert first.read_text() == "before"
    assert sorted(tmp_path.iterdir()) == [first, second]


def test_every_template_is_used():
    """And every one that is used is there."""
    known = {"test_serving.py", "pytest.ini"}
    known |= {name for files in _init_files.CI_FILES.values() for name in files.values()}
    there = {Path(path.stem).name for path in _init_files.TEMPLATES.glob("*.txt")}
    assert there == known
