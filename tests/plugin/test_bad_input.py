"""What is wrong is told, with what to do next; nothing is measured for nothing."""

from __future__ import annotations

import pytest


def test_an_unknown_engine_answers_with_the_known_ones(suite):
    """Before anything is collected."""
    suite.write()
    result = suite.collect("--llmperf-engine", "vlm")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = suite.text(result)
    assert "unknown engine 'vlm'. Did you mean 'vllm'? Known: attach, sim, vllm" in text


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--llmperf-launches", "0"], "--llmperf-launches (ini llmperf_launches): '0' is not a"),
        (["--llmperf-launches", "999999999"], "'999999999' is more than 1,000, the most"),
        (["--llmperf-replays", "1001"], "(ini llmperf_replays): '1001' is more than 1,000"),
        (["--llmperf-stall-timeout", "soon"], "'soon' is not a number of seconds"),
        (["--llmperf-model", "qwen"], "'qwen' is not NAME=PATH"),
        (["--llmperf-inconclusive", "ignore"], "'ignore' is none of skip, fail, pass"),
        (["--llmperf-engine", "attach"], "--llmperf-engine attach needs --llmperf-base-url"),
        (["--llmperf-server-args", "--x '"], "--llmperf-server-args: No closing quotation"),
    ],
)
def test_an_option_that_cannot_be_read_is_told(suite, options, complaint):
    """The option, its ini name, the value, the rule."""
    suite.write()
    result = suite.collect(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert complaint in suite.text(result)


@pytest.mark.parametrize(
    ("marker", "complaint"),
    [
        ("traffic=[BURST]", "servers= is None, not a list of ServerSpec"),
        ("servers=[], traffic=[BURST]", "servers= is empty"),
        ("servers=[BASE]", "names no traffic; give traffic=[...]"),
        ("servers=['base'], traffic=[BURST]", "servers= holds a str, not a ServerSpec"),
        ("servers=[BASE, BASE], traffic=[BURST]", "servers= has 'base' twice; name it once"),
        ("servers=[BASE], traffic=[BURST, BURST]", "traffic= has 'burst' twice; name it once"),
        ("servers=[BASE], traffic=[BASE]", "not a TrafficSpec"),
        ("servers=[BASE], trafic=[BURST]", "does not take 'trafic'; it takes servers, traffic"),
        ("servers=[BASE], traffic=[BURST], against=BASE", "which servers= has too: two are needed"),
        (
            "servers=[BASE], traffic=[BURST], against=sim('b', 'm')",
            "use llm_comparison, not llm_verdict",
        ),
        ("servers=[BASE], traffic=[BURST], gate=['itl.men']", "unknown figure 'itl.men'"),
        ("servers=[BASE], traffic=[BURST], gate={'itl.mean': 5}", "tolerance of itl.mean is 5"),
    ],
)
def test_a_marker_that_cannot_be_is_told(suite, marker, complaint):
    """At collection, with the test's id."""
    suite.write(f"""
    @pytest.mark.llmperf({marker})
    def test_serving(llm_verdict):
        llm_verdict.check()
    """)
    result = suite.collect()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert complaint in suite.text(result)
    assert "test_suite.py::test_serving" in suite.text(result)


def test_a_fixture_without_a_marker_is_told(suite):
    """The first error that a new user makes."""
    suite.write("def test_serving(llm_verdict): ...")
    assert "has no @pytest.mark.llmperf" in suite.text(suite.collect())


def test_two_servers_of_one_name_are_refused(suite):
    """A name is a server's identity in baselines and history."""
    suite.write("""
    OTHER = sim("base", "Qwen/Qwen3-14B", "--max-num-seqs", "4")

    @pytest.mark.llmperf(servers=[BASE], traffic=[BURST])
    def test_one(llm_verdict): ...

    @pytest.mark.llmperf(servers=[OTHER], traffic=[BURST])
    def test_two(llm_verdict): ...
    """)
    result = suite.collect()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "two servers are named 'base'" in suite.text(result)


@pytest.mark.parametrize(
    ("arrival", "complaint"),
    [
        ({"arrival": "gama"}, "traffic 't': unknown arrival 'gama'. Did you mean 'gamma'?"),
        ({"arrival_options": {"burst": 2}}, "unknown option 'burst'. Known: burstiness"),
        ({"arrival": "trace", "arrival_options": {"x": 2}}, "unknown option 'x'. Known: none"),
    ],
)
def test_arrivals_that_cannot_be_are_told_at_collection(suite, arrival, complaint):
    """With the traffic's name; for a plan too, and nothing is made on the disk."""
    suite.write(f"""
    T = random("t", num_prompts=4, input_len=8, output_len=8, **{arrival!r})

    @pytest.mark.llmperf(servers=[BASE], traffic=[T])
    def test_serving(llm_verdict): ...
    """)
    result = suite.collect("--llmperf-plan")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert complaint in suite.text(result)
    assert "traffic 't'" in suite.text(result)
    assert not suite.runs


@pytest.mark.parametrize("option", ["runs", "report"])
def test_a_folder_that_cannot_be_made_is_told_before_anything_is_measured(suite, option):
    """What a night measures must have a place; a plan needs none."""
    suite.write()
    flag = f"--llmperf-{option}=/proc/x"
    result = suite.collect(flag)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"--llmperf-{option}: cannot write to /proc/x (No such file" in suite.text(result)
    assert suite.collect(flag, "--llmperf-plan").ret == pytest.ExitCode.OK


def test_a_mapped_model_that_nothing_uses_is_said(suite):
    """Not refused: one ini file serves several suites. Models in arguments are used."""
    suite.write("""
    S = sim("s", "big", '--speculative-config={"model": "draft"}')

    @pytest.mark.llmperf(servers=[S], traffic=[BURST])
    def test_serving(llm_verdict): ...
    """)
    flags = [f"--llmperf-model={name}=/x" for name in ("big", "draft", "nothere")]
    text = suite.text(suite.collect("--llmperf-plan", *flags))
    assert "--llmperf-model nothere=/x: no selected server uses 'nothere'" in text
    assert text.count("no selected server uses") == 1


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(None, "chats.json"), ("", "empty"), ("[]", "conversation"), ("{", "chats.json")],
)
def test_a_dataset_that_cannot_be_read_is_told(suite, content, complaint):
    """Missing, empty, without conversations, no JSON: the file is named, no server started."""
    if content is not None:
        (suite.pytester.path / "chats.json").write_text(content)
    suite.write("""
    CHATS = sharegpt("chats", path="chats.json", num_prompts=4)

    @pytest.mark.llmperf(servers=[BASE], traffic=[CHATS])
    def test_serving(llm_verdict):
        llm_verdict.check()
    """)
    result = suite.run()
    result.assert_outcomes(errors=1)
    text = suite.text(result)
    assert complaint in text
    assert "chats.json" in text
    assert not list(suite.runs[-1].glob("campaigns/*/*/launch-*/server.log"))


@pytest.mark.parametrize(
    ("slo", "complaint"),
    [
        ({"ttft.p99": "fast"}, "slo for 'ttft.p99': cannot read 'fast'"),
        ({"ttft.p98": "< 1 s"}, "unknown figure 'ttft.p98'. Did you mean 'ttft.p99'"),
        ({"ttft": "< 1 s"}, "ttft.mean"),
        ({"output_tps": "> 5 ms"}, "is in ms, but the figure is in tok/s"),
        (["ttft.p99"], "check(slo=...) is ['ttft.p99'], not a mapping of figures to limits"),
    ],
)
def test_a_limit_that_cannot_be_read_fails_the_test(suite, slo, complaint):
    """The artifacts of what was measured stay."""
    suite.write(f"""
    @pytest.mark.llmperf(servers=[BASE], traffic=[BURST])
    def test_serving(llm_verdict):
        llm_verdict.check(slo={slo!r})
    """)
    result = suite.run(launches=1, replays=1)
    result.assert_outcomes(failed=1)
    assert complaint in suite.text(result)


OUT_OF_MEMORY = """#!/bin/sh
echo "(EngineCore pid=7) INFO 11-30 07:45:29 [model_runner.py:281] Loading model from scratch..."
echo "(EngineCore pid=7) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB" >&2
exit 1
"""


def test_a_server_that_dies_at_start_is_quoted(suite):
    """Its own error line is in the message, with the log's place; the next server is measured."""
    executable = suite.pytester.path / "vllm"
    executable.write_text(OUT_OF_MEMORY)
    executable.chmod(0o755)
    suite.write("""
    BAD = vllm("bad", "Qwen/Qwen3-14B")

    @pytest.mark.llmperf(servers=[BAD, BASE], traffic=[BURST])
    def test_serving(llm_verdict):
        llm_verdict.check(slo={"ttft.p99": "< 5 s"}, baseline=False)
    """)
    result = suite.run(f"--llmperf-vllm={executable}", launches=1, replays=1)
    result.assert_outcomes(errors=1, passed=1)
    text = suite.text(result)
    assert "INVALID: bad on burst" in text
    assert "CUDA out of memory. Tried to allocate 9.00 GiB" in text
    assert "server.log" in text
    assert "CUDA out of memory" in suite.outcome()["notes"][0], "what is missing is in the run"


def test_an_argument_that_the_engine_refuses_is_told(suite):
    """Before anything is started where the engine can tell."""
    suite.write("""
    BAD = sim("bad", "Qwen/Qwen3-14B", "--max-num-seqs", "many")

    @pytest.mark.llmperf(servers=[BAD], traffic=[BURST])
    def test_serving(llm_verdict):
        llm_verdict.check()
    """)
    result = suite.run(launches=1, replays=1)
    result.assert_outcomes(errors=1)
    assert "argument --max-num-seqs" in suite.text(result)


def test_a_model_folder_that_does_not_exist_is_told(suite):
    """Before a server is started with it."""
    suite.write("""
    HERE = vllm("here", "/models/none")

    @pytest.mark.llmperf(servers=[HERE], traffic=[BURST])
    def test_serving(llm_verdict):
        llm_verdict.check()
    """)
    result = suite.run("--llmperf-vllm", "/bin/true")
    result.assert_outcomes(errors=1)
    assert "/models/none" in suite.text(result)


def test_a_missing_executable_is_told(suite):
    """With the option that names another."""
    suite.write("""
    HERE = vllm("here", "Qwen/Qwen3-14B")

    @pytest.mark.llmperf(servers=[HERE], traffic=[BURST])
    def test_serving(llm_verdict):
        llm_verdict.check()
    """)
    result = suite.run("--llmperf-vllm", "/nowhere/vllm")
    result.assert_outcomes(errors=1)
    text = suite.text(result)
    assert "/nowhere/vllm" in text
    assert "--llmperf-vllm" in text


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("{", "baselines/"), ('{"schema": 99}', "99")],
)
def test_a_baseline_that_cannot_be_read_is_told(suite, content, complaint):
    """Corrupt or newer: the file is named, and left as it is."""
    suite.write()
    suite.run("--llmperf-accept", launches=1, replays=1).assert_outcomes(passed=1)
    (path,) = (suite.pytester.path / "baselines").glob("*/*/*.json")
    path.write_text(content)
    result = suite.run("--llmperf-accept", launches=1, replays=1)
    result.assert_outcomes(failed=1)
    assert complaint in suite.text(result)
    assert path.read_text() == content


def test_a_verdict_that_is_never_checked_is_an_error(suite):
    """A test that measures and judges nothing must not look green."""
    suite.write("""
    @pytest.mark.llmperf(servers=[BASE], traffic=[BURST])
    def test_serving(llm_verdict): ...
    """)
    result = suite.run(launches=1, replays=1)
    result.assert_outcomes(passed=1, errors=1)
    assert "measured but judged nothing" in suite.text(result)
