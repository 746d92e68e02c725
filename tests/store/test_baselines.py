"""Baselines in git: what is stored, what is found, and what is never mixed."""

import json
import logging
import math
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from pytest_llmperf.errors import BaselineError, SpecError
from pytest_llmperf.model.baseline import Baseline, Night
from pytest_llmperf.model.machine import Machine
from pytest_llmperf.model.server import ServerSpec
from pytest_llmperf.model.traffic import Prompt, Request, Traffic, TrafficSpec
from pytest_llmperf.model.verdict import Noise
from pytest_llmperf.store.baselines import BaselineStore, NoBaseline, against_of, traffic_record

H200 = Machine("NVIDIA H200", 1, "none", "580", 13, False, 700, "Xeon")  # noqa: FBT003
SERVER = ServerSpec.of(
    "qwen3",
    "vllm",
    "Qwen/Qwen3-14B",
    ["--max-model-len", "8192", "--api-key", "abc123secret"],
    {
        "HF_TOKEN": "hf_abc",
        "S3_KEY": "hf_abc",
        "APP_SECRET": "hf_abc",
        "DB_PASSWORD": "hf_abc",
        "VLLM_USE_V1": "1",
    },
)


def traffic(content="Hello", **options):
    spec = TrafficSpec("chat", "random", **options)
    return Traffic(spec, (Request(0, 0, Prompt(content, 5, 7)),))


CHAT = traffic()


def night(date="2026-07-01", host="gpu-1", tps=1400.0, run=None, **figures):
    values = {"output_tps": ((tps, tps), (tps, tps)), "kv_tokens": ((262144,), (262144,))}
    provenance = {"accepted_at": f"{date}T04:00:00", "accepted_by": "ci"}
    if run:
        provenance["run"] = run
    return Night(date, host, {**values, **figures}, provenance)


@pytest.fixture
def store(tmp_path):
    """Return a store in a folder that is not there yet."""
    return BaselineStore(tmp_path / "baselines")


def find(store, machine=H200, of=CHAT, **options):
    return store.find(machine, "qwen3", "chat", of.digest, **options)


class TestRoundTrip:
    """What is accepted is found again."""

    def test_an_accepted_night_is_found(self, store):
        """Machine, server, traffic and nights × launches × replays come back."""
        path = store.accept(H200, SERVER, CHAT, night())
        assert path == store.root / H200.key / "qwen3" / "chat.json"
        found = find(store)
        assert isinstance(found, Baseline)
        assert found.machine == H200
        assert (found.server_name, found.traffic_name) == ("qwen3", "chat")
        assert found.traffic_digest == CHAT.digest
        assert found.values("output_tps") == (((1400.0, 1400.0), (1400.0, 1400.0)),)
        assert found.values("kv_tokens") == (((262144.0,), (262144.0,)),)
        assert found.nights[0].host == "gpu-1"
        assert found.nights[0].provenance["accepted_by"] == "ci"

    def test_nights_lie_oldest_first(self, store):
        """A night that is accepted late takes its place by date."""
        for date in ("2026-07-03", "2026-07-01", "2026-07-02"):
            store.accept(H200, SERVER, CHAT, night(date))
        assert [n.date[-2:] for n in find(store).nights] == ["01", "02", "03"]

    def test_nights_beyond_the_last_ten_stay(self, store):
        """Twelve accepted nights are twelve in the file; noise is of the last ten."""
        for day in range(1, 13):
            store.accept(H200, SERVER, CHAT, night(f"2026-07-{day:02}"))
        found = find(store)
        assert len(found.nights) == 12
        assert found.noise["output_tps"].df == 9

    def test_a_changed_server_is_the_same_baseline(self, store):
        """The name is the identity: changed arguments are recorded, and no reason to start anew."""
        store.accept(H200, SERVER, CHAT, night("2026-07-01"))
        changed = SERVER.with_arguments(["--enable-prefix-caching"])
        store.accept(H200, changed, CHAT, night("2026-07-02"))
        found = find(store)
        assert len(found.nights) == 2
        assert "--enable-prefix-caching" in found.server["arguments"]

    def test_secrets_stay_out(self, store):
        """No key or token of the server reaches a file that is committed."""
        text = store.accept(H200, SERVER, CHAT, night()).read_text()
        assert "abc123secret" not in text
        assert "hf_abc" not in text
        assert '"VLLM_USE_V1": "1"' in text

    def test_impossible_names_are_refused(self, store):
        """A name that would leave the folder is no name."""
        with pytest.raises(SpecError, match="server name"):
            store.find(H200, "../elsewhere", "chat", CHAT.digest)


class TestFile:
    """The file is made for a person who reviews its diff."""

    def test_same_content_same_bytes(self, store, tmp_path):
        """Two stores that accept the same nights hold the same bytes."""
        other = BaselineStore(tmp_path / "other")
        for one in (store, other):
            for day in ("2026-07-01", "2026-07-02"):
                path = one.accept(H200, SERVER, CHAT, night(day, tps=1403.6791234))
        assert path.read_bytes() == store.path(H200, "qwen3", "chat").read_bytes()

    def test_a_new_night_leaves_the_old_lines_alone(self, store):
        """All that a third night adds is that night, and its noise."""
        path = store.accept(H200, SERVER, CHAT, night("2026-07-01", tps=1403.67912))
        store.accept(H200, SERVER, CHAT, night("2026-07-02", tps=1393.73912))
        before = path.read_text().splitlines()
        store.accept(H200, SERVER, CHAT, night("2026-07-03", tps=1387.38612))
        after = path.read_text().splitlines()
        gone = [line for line in before if line not in after]
        assert all('"df": 1' in line for line in gone)
        assert len(gone) == 2  # the noise of output_tps and of kv_tokens

    def test_layout(self, store):
        """Keys are sorted, a launch's replays are one line, values have six digits."""
        path = store.accept(H200, SERVER, CHAT, night(tps=1403.6791234))
        text = path.read_text()
        assert (
            '    "output_tps": [\n     [1403.68, 1403.68],\n     [1403.68, 1403.68]\n    ]\n'
        ) in text
        assert "     [262144],\n" in text
        data = json.loads(text)
        assert list(data) == sorted(data)
        assert data["schema"] == 1
        assert data["written_by"].startswith("pytest-llmperf ")

    def test_values_that_are_not_finite_are_not_accepted(self, store):
        """A figure that is not a number is named, and nothing is written."""
        with pytest.raises(BaselineError, match=r"night 2026-07-01 on gpu-1: ttft\.p99 holds"):
            store.accept(H200, SERVER, CHAT, night(**{"ttft.p99": ((math.nan,),)}))
        assert not store.path(H200, "qwen3", "chat").exists()


class TestNoise:
    """Noise is estimated as nights come in, and pooled over a machine."""

    def test_is_estimated_from_night_means(self, store):
        """Nights at e^−0.01, 1, e^0.01 times 1,000: sd 0.01 with 2 degrees of freedom."""
        for day, y in ((1, -0.01), (2, 0.0), (3, 0.01)):
            store.accept(H200, SERVER, CHAT, night(f"2026-07-0{day}", tps=1000 * math.exp(y)))
        noise = find(store).noise["output_tps"]
        assert noise.sd == pytest.approx(0.01, rel=1e-4)
        assert noise.df == 2

    def test_one_night_has_none(self, store):
        """A single night differs from nothing."""
        store.accept(H200, SERVER, CHAT, night())
        assert find(store).noise == {}
        assert store.noise(H200, "output_tps") is None

    def test_figures_without_logarithm_have_none(self, store):
        """An error rate of 0 is stored, and no noise is made up for it."""
        for day in ("2026-07-01", "2026-07-02"):
            store.accept(H200, SERVER, CHAT, night(day, error_rate=((0.0, 0.0),)))
        found = find(store)
        assert found.values("error_rate") == (((0.0, 0.0),),) * 2
        assert "error_rate" not in found.noise

    def test_is_pooled_over_the_files_of_a_machine(self, store):
        """Two servers of two nights: each difference d gives sd d/√2, pooled over 2 df."""
        other = replace(SERVER, name="qwen3-awq")
        for server, ys in ((SERVER, (0.0, 0.02)), (other, (0.0, 0.04))):
            for day, y in enumerate(ys, 1):
                store.accept(H200, server, CHAT, night(f"2026-07-0{day}", tps=1e3 * math.exp(y)))
        pooled = store.noise(H200, "output_tps")
        assert pooled.df == 2
        assert pooled.sd == pytest.approx(math.sqrt((0.0002 + 0.0008) / 2), rel=1e-3)

    def test_unlike_traffics_foretell_little(self, store):
        """One of 3 % beside two of 0.3 %: the pool is worth less than one night's difference."""
        for name, sd in (("loud", 0.03), ("calm", 0.003), ("still", 0.003)):
            for day in range(1, 11):
                tps = 1000 * math.exp(sd * (-1) ** day)
                of = night(f"2026-07-{day:02}", tps=tps)
                store.accept(H200, replace(SERVER, name=name), CHAT, of)
        pooled = store.noise(H200, "output_tps")
        assert pooled.sd == pytest.approx(math.sqrt((0.0009 + 2 * 0.000009) / 3 * 10 / 9), rel=1e-3)
        assert pooled.df < 2

    def test_other_machines_do_not_count(self, store):
        """An A100's noise says nothing of an H200's."""
        a100 = replace(H200, gpu_model="NVIDIA A100")
        for day in ("2026-07-01", "2026-07-02"):
            store.accept(a100, SERVER, CHAT, night(day))
        assert store.noise(H200, "output_tps") is None
        assert store.noise(a100, "output_tps") == Noise(0.0, 1)


class TestSameNight:
    """Two sessions of one date on one host are one night."""

    def test_launches_are_appended(self, store):
        """Two sessions of two launches make a night of four."""
        store.accept(H200, SERVER, CHAT, night(tps=1400, run="a"))
        store.accept(H200, SERVER, CHAT, night(tps=1380, run="b"))
        found = find(store)
        assert len(found.nights) == 1
        assert found.values("output_tps")[0] == ((1400, 1400),) * 2 + ((1380, 1380),) * 2
        assert found.nights[0].provenance["runs"] == ["a", "b"]

    def test_another_host_is_another_night(self, store):
        """The same date on two hosts are two nights."""
        store.accept(H200, SERVER, CHAT, night(host="gpu-1"))
        store.accept(H200, SERVER, CHAT, night(host="gpu-2"))
        assert len(find(store).nights) == 2

    def test_the_same_run_counts_once(self, store):
        """Accepting a run twice would call its launches a replication, so it changes nothing."""
        for run in ("a", "b"):
            path = store.accept(H200, SERVER, CHAT, night(run=run))
        before = path.read_bytes()
        for run in ("a", "b"):
            store.accept(H200, SERVER, CHAT, night(run=run))
        assert path.read_bytes() == before

    def test_figures_of_either_session_are_kept(self, store):
        """A figure that only one session measured has that session's launches."""
        store.accept(H200, SERVER, CHAT, night(run="a"))
        store.accept(H200, SERVER, CHAT, night(run="b", **{"ttft.p99": ((50.0,),)}))
        assert find(store).values("ttft.p99") == (((50.0,),),)


class TestAnchor:
    """The first night is pinned."""

    def test_first_night_becomes_the_anchor(self, store):
        """Its means, with who, when and why; a launch mean of logs: √(1000·1210) = 1100."""
        first = night(output_tps=((1000.0, 1210.0),), error_rate=((0.0, 0.5),))
        store.accept(H200, SERVER, CHAT, first)
        anchor = find(store).anchor
        assert anchor["figures"] == {"output_tps": 1100, "kv_tokens": 262144, "error_rate": 0.25}
        assert anchor["date"] == "2026-07-01"
        assert anchor["accepted_by"] == "ci"
        assert anchor["accepted_at"] == "2026-07-01T04:00:00"
        assert anchor["reason"] == "first accepted night"

    def test_stays_whatever_is_accepted(self, store):
        """Later nights, earlier ones and more launches of the first do not move it."""
        store.accept(H200, SERVER, CHAT, night("2026-07-02"))
        pinned = find(store).anchor
        for date in ("2026-07-02", "2026-07-03", "2026-07-01"):
            store.accept(H200, SERVER, CHAT, night(date, tps=1500))
        assert find(store).anchor == pinned


class TestNothingComparable:
    """NoBaseline says what differs from the nearest."""

    def test_nothing_stored(self, store):
        """The folder is named, and how to begin."""
        found = find(store)
        assert isinstance(found, NoBaseline)
        assert found.reason == (
            f"no night of qwen3 on chat is stored in {store.root}; accept one with --llmperf-accept"
        )

    def test_other_traffics_of_the_server_are_named(self, store):
        """A renamed traffic is found by looking at the names there are."""
        spec = TrafficSpec("long", "random")
        store.accept(H200, SERVER, Traffic(spec, CHAT.requests), night())
        assert "(of qwen3 there are: long)" in find(store).reason

    def test_nearest_machine(self, store):
        """Of two other machines the one with fewer differences is told, field by field."""
        far = replace(H200, gpu_model="NVIDIA A100", power_limit_w=400, driver_branch="550")
        near = replace(H200, driver_branch="570")
        for machine in (far, near):
            store.accept(machine, SERVER, CHAT, night())
        assert find(store).reason == (
            "no night of qwen3 on chat was accepted on this machine; the nearest, "
            f"{near.key}, differs (stored → here): driver_branch: 570 → 580"
        )

    def test_simulated_and_real_never_meet(self, store):
        """Neither is the other's baseline, nor its nearest."""
        simulated = Machine(simulated=True)
        store.accept(simulated, SERVER, CHAT, night())
        assert find(store).reason == (
            "only simulated nights of qwen3 on chat are stored, and a real one is never compared "
            "with them"
        )
        assert isinstance(find(store, simulated), Baseline)

    def test_another_traffic_names_the_fields(self, store):
        """Another digest is told by what differs in the recipe."""
        store.accept(H200, SERVER, CHAT, night())
        other = traffic(seed=7, max_concurrency=16)
        assert (
            find(store, of=other, traffic_record=traffic_record(other)).reason
            == (
                "chat is another traffic than the stored one (stored → here): "
                "max_concurrency: None → 16, seed: 0 → 7"
            )
            or other.digest == CHAT.digest
        )

    def test_another_content_of_the_same_recipe(self, store):
        """The dataset changed under an unchanged recipe."""
        store.accept(H200, SERVER, CHAT, night())
        other = traffic("Another prompt")
        reason = find(store, of=other, traffic_record=traffic_record(other)).reason
        assert "the recipe is the same, its dataset's content is not" in reason
        assert f"{CHAT.digest} → {other.digest}" in reason

    def test_another_traffic_without_its_recipe(self, store):
        """Without the recipe at hand the digests are told."""
        store.accept(H200, SERVER, CHAT, night())
        other = traffic("Another prompt")
        assert f"digest {CHAT.digest} → {other.digest}" in find(store, of=other).reason

    def test_a_file_moved_from_another_machine(self, store):
        """Copying a folder does not make another machine's nights comparable."""
        a100 = replace(H200, gpu_model="NVIDIA A100")
        path = store.accept(a100, SERVER, CHAT, night())
        here = store.path(H200, "qwen3", "chat")
        here.parent.mkdir(parents=True)
        here.write_bytes(path.read_bytes())
        assert "gpu_model: NVIDIA A100 → NVIDIA H200" in find(store).reason
        with pytest.raises(BaselineError, match="is of another machine"):
            store.accept(H200, SERVER, CHAT, night())


class TestAnotherTraffic:
    """Nights of two traffics never stand in one file, and none is ever lost."""

    def test_is_refused(self, store):
        """The file, what it holds, what differs and what to do are said; the file stays as it is."""
        for day in ("2026-07-01", "2026-07-02"):
            path = store.accept(H200, SERVER, CHAT, night(day))
        before = path.read_bytes()
        other = Traffic(replace(CHAT.spec, num_prompts=40), CHAT.requests * 2)
        with pytest.raises(BaselineError) as refused:
            store.accept(H200, SERVER, other, night("2026-07-03"))
        message = str(refused.value)
        assert message.startswith(f"{path} keeps its 2 nights, and tonight's is not accepted: ")
        assert f"num_prompts: {CHAT.spec.num_prompts} → 40" in message
        assert "output_tokens: 7 → 14" in message
        assert "remove or rename the file in git" in message
        assert "--llmperf-prompts" in message
        assert path.read_bytes() == before

    def test_of_the_same_recipe_is_refused(self, store):
        """Another tokenizer or dataset under an unchanged recipe: the digests are said."""
        store.accept(H200, SERVER, CHAT, night())
        other = traffic("Another prompt")
        with pytest.raises(BaselineError, match=f"{CHAT.digest} → {other.digest}"):
            store.accept(H200, SERVER, other, night("2026-07-02"))
        assert len(find(store).nights) == 1

    def test_begins_anew_once_the_file_is_gone(self, store):
        """As the message says."""
        store.accept(H200, SERVER, CHAT, night()).unlink()
        other = traffic("Another prompt")
        store.accept(H200, SERVER, other, night("2026-07-02"))
        assert [n.date for n in find(store, of=other).nights] == ["2026-07-02"]


class TestRatios:
    """Ratios of two servers have files, folders and noise of their own."""

    BASE = ServerSpec.of("base", "vllm", "Qwen/Qwen3-14B", ["--api-key", "abc123secret"])

    def accept(self, store, ratio=1.27, date="2026-07-01", **options):
        """Accept a night of three pairs."""
        ratios = Night(date, "gpu-1", {"output_tps": ((ratio,),) * 3}, {"run": f"r-{date}"})
        return store.accept(H200, SERVER, CHAT, ratios, **{"against": self.BASE, **options})

    def test_round_trip(self, store):
        """Found by the two names; both servers are recorded, no secret is."""
        path = self.accept(store)
        assert path == store.root / H200.key / "qwen3-vs-base" / "chat.json"
        found = find(store, against="base")
        assert found.values("output_tps") == (((1.27,),) * 3,)
        assert (found.server_name, against_of(found)) == ("qwen3", "base")
        assert found.server["against"]["model"] == "Qwen/Qwen3-14B"
        assert "abc123secret" not in path.read_text()

    def test_is_no_baseline_of_the_server_itself(self, store):
        """Nor the server's own nights one of its ratios."""
        self.accept(store)
        assert isinstance(find(store), NoBaseline)
        store.accept(H200, SERVER, CHAT, night())
        assert isinstance(find(store, against="other"), NoBaseline)
        assert find(store).values("output_tps")[0][0] == (1400.0, 1400.0)

    def test_nothing_stored_names_both(self, store):
        """And another machine's ratios are the nearest, not its servers' nights."""
        assert find(store, against="base").reason.startswith("no night of qwen3 against base on")
        a100 = replace(H200, gpu_model="NVIDIA A100")
        ratios = Night("2026-07-01", "gpu-1", {"output_tps": ((1.27,),)})
        store.accept(a100, SERVER, CHAT, ratios, against=self.BASE)
        assert "gpu_model: NVIDIA A100 → NVIDIA H200" in find(store, against="base").reason

    def test_noise_is_pooled_apart(self, store):
        """Nights of 1,000 and 1,000·e^0.02 (sd 0.02/√2), ratios that do not move at all."""
        for day, y in ((1, 0.0), (2, 0.02)):
            store.accept(H200, SERVER, CHAT, night(f"2026-07-0{day}", tps=1000 * math.exp(y)))
            self.accept(store, date=f"2026-07-0{day}")
        assert store.noise(H200, "output_tps").sd == pytest.approx(0.02 / math.sqrt(2), rel=1e-3)
        assert store.noise(H200, "output_tps", ratios=True) == Noise(0.0, 1)

    def test_a_server_of_the_folders_name_is_refused(self, store):
        """Whichever came first: neither is judged by the other, nor added to it."""
        path = self.accept(store)
        before = path.read_bytes()
        odd = replace(SERVER, name="qwen3-vs-base")
        with pytest.raises(BaselineError, match="ratios of qwen3 against base, not nights of qwen"):
            store.find(H200, "qwen3-vs-base", "chat", CHAT.digest)
        with pytest.raises(BaselineError, match="rename the server"):
            store.accept(H200, odd, CHAT, night("2026-07-02"))
        assert path.read_bytes() == before
        path.unlink()
        store.accept(H200, odd, CHAT, night())
        with pytest.raises(BaselineError, match="holds nights of qwen3-vs-base, not ratios of"):
            self.accept(store)

    def test_two_pairs_of_one_folder_are_refused(self, store):
        """a-vs-b against c, and a against b-vs-c."""
        ab, c, a, bc = (ServerSpec.of(n, "vllm", "m") for n in ("a-vs-b", "c", "a", "b-vs-c"))
        ratios = Night("2026-07-01", "gpu-1", {"output_tps": ((1.0,),)})
        store.accept(H200, ab, CHAT, ratios, against=c)
        with pytest.raises(
            BaselineError, match="ratios of a-vs-b against c, not ratios of a against"
        ):
            store.accept(H200, a, CHAT, ratios, against=bc)

    def test_a_file_moved_to_a_servers_new_name_is_its_baseline(self, store):
        """Renaming a server in git is moving its folder."""
        path = store.accept(H200, SERVER, CHAT, night())
        path.parent.rename(path.parent.with_name("renamed"))
        found = store.find(H200, "renamed", "chat", CHAT.digest)
        assert isinstance(found, Baseline)

    def test_a_reference_without_a_name_is_damage(self, store):
        """Ratios to nobody are no ratios."""
        path = self.accept(store)
        data = json.loads(path.read_text())
        del data["server"]["against"]["name"]
        path.write_text(json.dumps(data))
        with pytest.raises(BaselineError, match="is damaged: 'name' is missing"):
            find(store, against="base")


class TestDamage:
    """A file that cannot be trusted is an error that names it and what to do."""

    def damage(self, store, change):
        """Accept a night and change what is in its file."""
        path = store.accept(H200, SERVER, CHAT, night())
        data = json.loads(path.read_text())
        change(data)
        path.write_text(json.dumps(data))

    @pytest.mark.parametrize("keep", [0, 1, 100, -2])
    def test_torn_file(self, store, keep):
        """Half a file is no baseline: restore it from git."""
        path = store.accept(H200, SERVER, CHAT, night())
        path.write_bytes(path.read_bytes()[:keep])
        with pytest.raises(BaselineError, match=r"chat\.json is damaged.*git checkout --"):
            find(store)
        with pytest.raises(BaselineError, match="is damaged"):
            store.accept(H200, SERVER, CHAT, night())

    def test_merge_conflict(self, store):
        """What git leaves of a failed merge is called by its name."""
        path = store.accept(H200, SERVER, CHAT, night())
        path.write_text(f"<<<<<<< HEAD\n{path.read_text()}=======\n")
        with pytest.raises(BaselineError, match="conflict markers"):
            find(store)

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            (lambda data: data.pop("nights"), "'nights' is missing"),
            (lambda data: data.pop("schema"), "its schema is None"),
            (lambda data: data.update(schema=0), "there never was a schema 0"),
            (lambda data: data.update(machine=7), "is damaged"),
            (lambda data: data["nights"][0].update(date=7), "7 is not a text"),
            (
                lambda data: data["nights"][0]["figures"].update(output_tps=[["fast"]]),
                "output_tps holds 'fast', not a number",
            ),
            (
                lambda data: data["nights"][0]["figures"].update(output_tps=[[]]),
                "output_tps has a launch without replays",
            ),
            (lambda data: data["nights"][0]["figures"].update(output_tps=[[math.nan]]), "NaN"),
            (lambda data: data.update(nights=7), "is damaged"),
        ],
    )
    def test_wrong_shape(self, store, change, complaint):
        """What is wrong is said."""
        self.damage(store, change)
        with pytest.raises(BaselineError, match=complaint):
            find(store)

    def test_something_else_than_an_object(self, store):
        """A list is no baseline."""
        path = store.accept(H200, SERVER, CHAT, night())
        path.write_text("[]")
        with pytest.raises(BaselineError, match="holds a list, not an object"):
            find(store)

    def test_newer_schema(self, store):
        """Which version wrote it, and what to do."""
        self.damage(store, lambda d: d.update(schema=2, written_by="pytest-llmperf 9.1.0"))
        with pytest.raises(
            BaselineError, match=r"written by pytest-llmperf 9\.1\.0 with schema 2; .*Upgrade"
        ):
            find(store)

    def test_damage_on_another_machine_is_no_obstacle(self, store, caplog):
        """Only advice is looked for there: it is logged, and the verdict is NO_BASELINE."""
        path = store.accept(replace(H200, gpu_count=2), SERVER, CHAT, night())
        path.write_text("{")
        with caplog.at_level(logging.WARNING):
            assert isinstance(find(store), NoBaseline)
        assert "is damaged" in caplog.text

    @pytest.mark.parametrize("damage", ["{", '{"schema": 99}'])
    def test_damaged_neighbour_is_passed_over(self, store, caplog, damage):
        """Another server's damaged or newer file takes no check down; it is said once."""
        for day, tps in (("2026-07-01", 1000), ("2026-07-02", 1010)):
            store.accept(H200, SERVER, CHAT, night(day, tps=tps))
        own = store.noise(H200, "output_tps")
        path = store.accept(H200, replace(SERVER, name="awq"), CHAT, night())
        path.write_text(damage)
        with caplog.at_level(logging.WARNING):
            assert store.noise(H200, "output_tps") == own
            assert store.noise(H200, "output_tps") == own
        assert isinstance(find(store), Baseline)
        assert [str(path) in record.getMessage() for record in caplog.records] == [True]

    def test_fields_of_a_later_machine_are_no_damage(self, store):
        """A version that records more of the host wrote the file: its nights still count."""
        self.damage(store, lambda data: data["machine"].update(bios="1.2"))
        assert len(find(store).nights) == 1
        store.accept(H200, SERVER, CHAT, night("2026-07-02"))
        assert len(find(store).nights) == 2

    def test_folder_that_is_a_file(self, store):
        """The night is not accepted, and the file is named."""
        store.root.write_text("")
        with pytest.raises(BaselineError, match=r"chat\.json cannot be written"):
            store.accept(H200, SERVER, CHAT, night())


def test_a_changed_file_is_read_again(store):
    """A store that read a file sees what another process accepted since."""
    store.accept(H200, SERVER, CHAT, night("2026-07-01"))
    assert len(find(store).nights) == 1
    BaselineStore(store.root).accept(H200, SERVER, CHAT, night("2026-07-02"))
    assert len(find(store).nights) == 2


WRITER = """
import sys
sys.path.insert(0, {here!r})
from pathlib import Path
from test_baselines import CHAT, H200, SERVER, night
from pytest_llmperf.store.baselines import BaselineStore
store = BaselineStore(Path({root!r}))
print("ready", flush=True)
sys.stdin.readline()
for n in range(6):
    store.accept(H200, SERVER, CHAT, night(run=f"{name}-{{n}}", tps=1000 + n))
"""


def test_concurrent_accepts_lose_nothing(store):
    """Four processes add six sessions each to one night: 24 sessions of two launches are there."""
    here = os.path.dirname(__file__)  # noqa: PTH120 - for sys.path
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER.format(here=here, root=str(store.root), name=name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "abcd"
    ]
    try:
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in processes:
            process.communicate(timeout=60)
            assert process.returncode == 0
    finally:
        for process in processes:
            process.kill()
            process.wait()
    found = find(store)
    assert len(found.values("output_tps")[0]) == 48
    assert len(set(found.nights[0].provenance["runs"])) == 24
    assert [p.name for p in store.path(H200, "qwen3", "chat").parent.iterdir()] == ["chat.json"]
