"""Stage 1 of the gate. Values are LEVEL · exp(∓y): y, + worse, is what the arithmetic is in.

Quantiles used below (Student's t): 0.95 and 0.99 at 9 df: 1.83311, 2.82144; at 6 df: 1.94318,
3.14267; of the normal distribution: 1.64485, 2.32635; 0.9992 of it: 3.15591.
"""

import math
import random

import pytest

from pytest_llmperf.errors import SpecError
from pytest_llmperf.gate import Noise, Rule, Status, estimate_noise, judge_values, pool
from pytest_llmperf.model.noise import pool_unlike

LEVEL = 1000.0
LAUNCHES = (0.0, 0.0, 0.0)
A = 0.003 * math.sqrt(10)
"""Ten night means at +A and −A in turn have a standard deviation of 0.01."""
TEN = [A, -A] * 5
QUIET, NOISY = [a / 10 for a in TEN], [a * 3 for a in TEN]
NORMAL = math.inf


def night(loss, launches=LAUNCHES, replays=1):
    """One night of a throughput: launches × replays, ``loss`` below LEVEL in y."""
    return [[LEVEL * math.exp(-(loss + own))] * replays for own in launches]


def nights(losses, launches=LAUNCHES):
    return [night(loss, launches) for loss in losses]


def judge(loss, *, of=TEN, launches=LAUNCHES, **options):
    return judge_values(night(loss, launches), nights(of), **options)


class TestMeasuredNoise:
    """Ten nights of sd 0.01: se = 0.01·√1.1 = 0.010488; 99 % bound 2.82144·se = 0.029591."""

    def test_loss_beyond_the_bound_is_regressed(self):
        """A loss of 3 % in y lies beyond 2.96 %, the bound at alpha 1 %."""
        finding = judge(0.030)
        assert finding.status is Status.REGRESSED
        assert finding.noise == "measured"
        assert not finding.open

    def test_loss_inside_the_bound_is_not(self):
        """2.9 % is not proven, and 2.9 % + 1.83311·se = 4.82 % is below the tolerance."""
        assert judge(0.029).status is Status.PASSED

    def test_nothing_changed_is_passed(self):
        """No loss at all passes: 1.92 % is the most that is plausible."""
        finding = judge(0.0)
        assert finding.status is Status.PASSED
        assert finding.change == pytest.approx(0.0, abs=1e-12)
        assert "at most 1.9 % lost (95 % bound)" in finding.reason

    def test_gain_beyond_the_bound_is_improved(self):
        """A gain of 3 % lies beyond 2.96 %; one of 2.9 % is only passed."""
        assert judge(-0.030).status is Status.IMPROVED
        assert judge(-0.029).status is Status.PASSED

    def test_values_of_the_finding(self):
        """Ratio − 1 as measured, its 90 % interval, and what 95 % power would have seen."""
        finding = judge(0.03)
        assert finding.value == pytest.approx(1000 * math.exp(-0.03))
        assert finding.reference == pytest.approx(1000)
        assert finding.change == pytest.approx(-0.029554, abs=1e-6)  # e^−0.03 − 1
        # −0.03 ∓ 1.83311 · 0.0104881 = −0.049226 and −0.010774
        assert finding.interval == pytest.approx((-0.048034, -0.010716), abs=1e-6)
        # (2.82144 + 1.83311) · 0.0104881 = 0.048817; 1 − e^−0.048817 = 0.047645
        assert finding.smallest_detectable_change == pytest.approx(0.047645, abs=1e-6)
        assert (finding.launches, finding.replays, finding.nights) == (3, 1, 10)
        assert finding.kind == "baseline"
        assert finding.tolerance == 0.05

    def test_reason_is_a_sentence(self):
        """What happened, against what, and the bound: 0.0418 − 0.029591 = 0.012209 in y."""
        finding = judge(0.0418)
        assert finding.reason == (
            "4.1 % lower than 10 accepted nights: a loss of at least 1.2 % (99 % bound)"
        )

    def test_smaller_alpha_asks_for_more(self):
        """At alpha 0.08 % and 9 df the quantile is 4.4528: 4.67 % is the bound."""
        assert judge(0.045).status is Status.REGRESSED
        strict = judge(0.045, alpha=0.0008)
        assert strict.status is Status.INCONCLUSIVE
        assert judge(0.047, alpha=0.0008).status is Status.REGRESSED


class TestPooledNoise:
    """Noise(0.02, inf): se = 0.02·√1.1 = 0.0209762; bounds 0.048798 (99 %), 0.034503 (95 %)."""

    noise = Noise(0.02, NORMAL)

    def test_is_used_in_place_of_the_nights_own(self):
        """A loss that the baseline's own 1 % would call proven is not, at 2 %."""
        finding = judge(0.0487, noise=self.noise)
        assert finding.noise == "pooled"
        assert finding.status is Status.INCONCLUSIVE
        assert judge(0.0489, noise=self.noise).status is Status.REGRESSED

    def test_tolerance_within_reach_is_inconclusive(self):
        """1.54 % + 3.45 % stays below 5 %, 1.56 % + 3.45 % does not."""
        assert judge(0.0154, noise=self.noise).status is Status.PASSED
        finding = judge(0.0156, noise=self.noise)
        assert finding.status is Status.INCONCLUSIVE
        assert finding.open
        assert "nights differ by 2.0 %" in finding.reason

    def test_smallest_effect_that_matters(self):
        """However sure, a loss below 2 % is passed and a gain below 2 % is no improvement."""
        sure = {"noise": Noise(0.001, NORMAL), "of": QUIET}
        assert judge(0.0199, **sure).status is Status.PASSED
        assert judge(0.0201, **sure).status is Status.REGRESSED
        assert judge(-0.0199, **sure).status is Status.PASSED
        assert judge(-0.0201, **sure).status is Status.IMPROVED

    def test_detectable_is_never_below_the_smallest_effect(self):
        """0.02 + 1.64485 · 0.00104881 = 0.0217251 in y, 2.149 % of a throughput."""
        finding = judge(0.0, noise=Noise(0.001, NORMAL), of=QUIET)
        assert finding.smallest_detectable_change == pytest.approx(0.021491, abs=1e-6)

    def test_unsure_noise_of_few_nights_gives_way_to_the_nights_own(self):
        """Noise of 2 degrees of freedom is worth less than the ten nights' own of 9."""
        assert judge(0.03, noise=Noise(0.05, 2)).noise == "measured"


class TestThresholds:
    """The rule's thresholds are settable a figure."""

    noise = Noise(0.001, NORMAL)

    def test_smallest_effect(self):
        """With 1 % as the smallest effect a proven loss of 1.5 % is regressed."""
        rule = Rule(smallest_effect=0.01)
        assert judge(0.015, of=QUIET, noise=self.noise, rule=rule).status is Status.REGRESSED

    def test_tolerance_below_the_smallest_effect_lowers_it(self):
        """Who tolerates 1 % has 1.5 % called regressed, not left between two thresholds."""
        rule = Rule(tolerance=0.01)
        assert judge(0.015, of=QUIET, noise=self.noise, rule=rule).status is Status.REGRESSED
        assert judge(0.005, of=QUIET, noise=self.noise, rule=rule).status is Status.PASSED

    def test_wide_tolerance_passes_what_is_not_proven(self):
        """1.56 % + 3.45 % is inconclusive for 5 % and passes for 10 %."""
        options = {"noise": Noise(0.02, NORMAL), "rule": Rule(tolerance=0.1)}
        assert judge(0.0156, **options).status is Status.PASSED

    def test_alpha_of_the_rule(self):
        """Without an alpha of its own a judgement takes the rule's."""
        rule = Rule(alpha=0.0008)  # 3.15591 · 0.0209762 = 0.066199
        noise = Noise(0.02, NORMAL)
        assert judge(0.066, noise=noise, rule=rule).status is Status.INCONCLUSIVE
        assert judge(0.0663, noise=noise, rule=rule).status is Status.REGRESSED
        assert judge(0.066, noise=noise, rule=rule, alpha=0.01).status is Status.REGRESSED

    @pytest.mark.parametrize("alpha", [0.0, -0.01, 0.5, math.nan])
    def test_impossible_alpha_is_refused(self, alpha):
        """A share of false alarms lies between 0 and one half."""
        with pytest.raises(SpecError, match="alpha is"):
            judge(0.0, alpha=alpha)


class TestDirection:
    """A throughput that falls and a latency that rises are the same loss."""

    @pytest.mark.parametrize("loss", [-0.05, -0.01, 0.0, 0.016, 0.029, 0.06])
    def test_mirror(self, loss):
        """1 / value with the direction turned gives the same verdict and mirrored figures."""
        noise = Noise(0.014, 20)
        tps = judge(loss, noise=noise, figure="tpot.mean")
        base = [[[1 / v for v in row] for row in one] for one in nights(TEN)]
        now = [[1 / v for v in row] for row in night(loss)]
        ms = judge_values(now, base, figure="tpot.mean", higher_is_better=False, noise=noise)
        assert ms.status is tps.status
        assert ms.launches_needed == tps.launches_needed
        assert 1 + ms.change == pytest.approx(1 / (1 + tps.change))
        low, high = tps.interval
        assert ms.interval == pytest.approx((1 / (1 + high) - 1, 1 / (1 + low) - 1))
        assert 1 + ms.smallest_detectable_change == pytest.approx(
            1 / (1 - tps.smallest_detectable_change)
        )

    def test_a_rise_of_latency_says_higher(self):
        """The words follow what was measured, not what is good."""
        base = [[[10.0], [10.0], [10.0]] for _ in range(6)]
        finding = judge_values([[11.0]] * 3, base, figure="itl.mean", higher_is_better=False)
        assert finding.status is Status.REGRESSED
        assert finding.change == pytest.approx(0.1)
        assert finding.reason.startswith("10.0 % higher than 6 accepted nights")

    def test_level_does_not_matter(self):
        """All values times a constant change no verdict and no change."""
        one = judge(0.02, noise=Noise(0.02, 30))
        scaled = judge_values(
            [[v * 37 for v in row] for row in night(0.02)],
            [[[v * 37 for v in row] for row in n] for n in nights(TEN)],
            noise=Noise(0.02, 30),
        )
        assert (scaled.status, scaled.launches_needed) == (one.status, one.launches_needed)
        assert scaled.change == pytest.approx(one.change)


class TestHierarchy:
    """Replays make launches, launches make nights; nothing is pooled across."""

    def test_a_launch_is_the_mean_of_its_replays(self):
        """A launch of five replays weighs as much as one of a single replay."""
        candidate = [[1000.0] * 5, [1000.0 * math.exp(-0.06)], [1000.0]]
        finding = judge_values(candidate, nights(TEN))
        assert finding.change == pytest.approx(math.expm1(-0.02))
        assert finding.replays == 5

    def test_replays_alone_prove_nothing(self):
        """A hundred times the same replays do not make a loss any surer."""
        once = judge_values(night(0.029), nights(TEN))
        often = judge_values(night(0.029, replays=100), nights(TEN))
        assert often.status is once.status is Status.PASSED
        assert often.interval == pytest.approx(once.interval)

    def test_only_the_last_ten_nights_count(self):
        """Two nights of another age, 20 % slower, are out of the comparison."""
        finding = judge_values(night(0.03), nights([0.2, 0.2, *TEN]))
        assert finding.reference == pytest.approx(1000)
        assert finding.nights == 10
        assert finding.status is Status.REGRESSED

    def test_fewer_launches_than_the_nights_had_widen_the_bound(self):
        """With launches of sd 0.01 in nights of three: s² + 0.01²·(1/1 − 1/3) + s²/10.

        s = 0.02: 0.0004 + 0.0000667 + 0.00004 = 0.00050667; se 0.022509 (0.020976 for three).
        """
        base = nights(TEN, launches=(-0.01, 0.0, 0.01))
        noise = Noise(0.02, NORMAL)
        finding = judge_values(night(0.0, launches=(0.0,)), base, noise=noise)
        assert finding.interval[0] == pytest.approx(math.expm1(-1.644854 * 0.022509), abs=1e-6)

    def test_more_launches_narrow_it(self):
        """Nine launches: 0.0004 − 0.0001·(1/3 − 1/9) + 0.00004 = 0.00041778; se 0.020440.

        The candidate's own launches (sd 0.01·√(6/8) = 0.00866) count in the launches' sd too:
        (10 nights · 2 df · 0.0001 + 8 df · 0.000075) / 28 = 0.000092857, so se² = 0.00041937.
        """
        base = nights(TEN, launches=(-0.01, 0.0, 0.01))
        noise = Noise(0.02, NORMAL)
        candidate = night(0.0, launches=(-0.01, 0.0, 0.01) * 3)
        finding = judge_values(candidate, base, noise=noise)
        expected = math.expm1(-1.644854 * math.sqrt(0.00041937))
        assert finding.interval[0] == pytest.approx(expected, abs=1e-6)


class TestUnlikeTraffics:
    """A machine's other traffics may be quieter or noisier than this one."""

    @pytest.mark.parametrize("df", [18, 90, NORMAL])
    def test_quiet_neighbours_make_no_false_alarm(self, df):
        """Nights of sd 0.03 differ by what a pool of 0.98 % would call REGRESSED.

        Their own 99 % bound is 2.82144·0.03·√1.1 = 0.088775.
        """
        finding = judge(0.03, of=NOISY, noise=Noise(0.0098, df))
        assert finding.noise == "measured"
        assert finding.status is Status.INCONCLUSIVE
        assert judge(0.088, of=NOISY, noise=Noise(0.0098, df)).status is Status.INCONCLUSIVE
        assert judge(0.089, of=NOISY, noise=Noise(0.0098, df)).status is Status.REGRESSED

    def test_a_new_traffic_among_quiet_ones(self):
        """Launches of sd 0.03 on its first night contradict 0.3 %: the noise is assumed."""
        spread = (-0.03, 0.0, 0.03)
        finding = judge_values(
            night(0.05, spread), nights([0.0], launches=spread), noise=Noise(0.003, 81)
        )
        assert (finding.status, finding.noise) == (Status.INCONCLUSIVE, "assumed")

    def test_noisy_neighbours_hide_no_loss(self):
        """Nights of sd 0.001 see 5 % by themselves, which a pool of 3 % would not."""
        finding = judge(0.05, of=QUIET, noise=Noise(0.03, 90))
        assert (finding.status, finding.noise) == (Status.REGRESSED, "measured")

    def test_false_alarms_of_simulated_nights(self):
        """400 nights of CV 3 % among nine traffics of 0.3 %: at 1 %, more than 12 is no chance.

        As the pool was once believed (0.98 % with 90 df) the same nights raise over 50.
        """
        rng = random.Random(20261130)  # noqa: S311 - a simulation, not a secret
        others = [Noise(0.00245, 9)] * 9
        alarms = believed = 0
        for _ in range(400):
            history = nights([rng.gauss(0, 0.0245) for _ in range(10)])
            tonight = night(rng.gauss(0, 0.0245))
            all_of_them = [*others, estimate_noise(history)]
            finding = judge_values(tonight, history, noise=pool_unlike(all_of_them))
            alarms += finding.status is Status.REGRESSED
            believed += finding.change < -2.37 * pool(all_of_them).sd * math.sqrt(1.1)
        assert alarms <= 12
        assert believed > 50


class TestTooLittleData:
    """Below three launches or five nights noise is assumed, and says so."""

    def test_one_night(self):
        """1 % with 6 df: se = 0.01·√2; 99 % bound 3.14267 · 0.0141421 = 0.044444."""
        finding = judge(0.044, of=[0.0])
        assert finding.noise == "assumed"
        assert finding.status is Status.INCONCLUSIVE
        assert "noise assumed" in finding.reason
        finding = judge(0.045, of=[0.0])
        assert finding.status is Status.REGRESSED
        assert "noise assumed" in finding.reason

    def test_small_loss_on_one_night_passes(self):
        """2.2 % + 1.94318 · 1.41421 % = 4.95 % passes, 2.3 % does not."""
        assert judge(0.022, of=[0.0]).status is Status.PASSED
        assert judge(0.023, of=[0.0]).status is Status.INCONCLUSIVE

    def test_noise_of_the_figure(self):
        """TTFT means wander by 5 % a night: what condemns a throughput says nothing there."""
        assert judge(0.08, of=[0.0], figure="ttft.mean").status is Status.INCONCLUSIVE
        assert judge(0.08, of=[0.0], figure="output_tps").status is Status.REGRESSED

    def test_noise_of_the_rule_goes_first(self):
        """A suite that knows its machine says what to assume."""
        rule = Rule(assumed_sd=0.05)
        assert judge(0.08, of=[0.0], rule=rule).status is Status.INCONCLUSIVE

    def test_launches_that_differ_raise_the_assumption(self):
        """Launches of sd 0.03 make nights of at least 0.03·√(4/3) = 0.034641 plausible.

        se = 0.048990; four launches in excess are 4 df, whose quantile is 3.74695: the 99 % bound
        is 0.183562, beside 0.044444 where launches agree.
        """
        spread = (-0.03, 0.0, 0.03)
        base = nights([0.0], launches=spread)
        assert judge_values(night(0.18, spread), base).status is Status.INCONCLUSIVE
        assert judge_values(night(0.19, spread), base).status is Status.REGRESSED

    def test_few_nights_blend_with_the_assumption(self):
        """Three nights at −0.03, 0, 0.03: (6·0.01² + 2·0.03²) / 8 = 0.0003, 8 df.

        se = √0.0003·√(4/3) = 0.02; t.95 at 8 df is 1.85955: the interval is ∓3.719 %.
        """
        finding = judge(0.0, of=[-0.03, 0.0, 0.03])
        assert finding.noise == "assumed"
        assert finding.interval == pytest.approx(
            (math.expm1(-0.037191), math.expm1(0.037191)), abs=1e-6
        )

    def test_five_nights_are_measured(self):
        """From five nights on the nights speak for themselves; of four they do not yet."""
        assert judge(0.0, of=TEN[:5]).noise == "measured"
        assert judge(0.0, of=TEN[:4]).noise == "assumed"

    def test_pooled_noise_serves_a_single_night(self):
        """The machine's other baselines know its noise: se = 0.005·√2, 2.32635·se = 1.645 %."""
        finding = judge(0.0201, of=[0.0], noise=Noise(0.005, NORMAL))
        assert finding.noise == "pooled"
        assert finding.status is Status.REGRESSED

    def test_few_launches_take_the_larger_noise(self):
        """One launch tonight: the nights' 0.1 % is not believed, 1 % is assumed."""
        finding = judge(0.025, of=QUIET, launches=(0.0,))
        assert finding.noise == "assumed"
        assert finding.status is Status.PASSED
        assert judge(0.025, of=QUIET).status is Status.REGRESSED

    def test_few_launches_keep_a_history_that_is_noisier(self):
        """Assuming 1 % where nights differ by 3 % would be a false alarm."""
        noisy = [3 * a for a in TEN]
        finding = judge(0.06, of=noisy, launches=(0.0, 0.0))
        assert finding.noise == "assumed"
        assert finding.status is Status.INCONCLUSIVE

    def test_no_worse_than_an_accepted_launch_is_no_regression(self):
        """Four nights with a launch at 6 % below: a night of 5.7 % less has been seen before."""
        base = [*nights([0.0] * 3), night(0.0, launches=(0.06, -0.03, -0.03))]
        # Launches of sd √(0.0054/10) make nights of 0.0268 plausible: F = 1.587, below 1.599.
        noise = Noise(0.0213, NORMAL)  # its bound is 2.32635·0.0213·√1.25 = 0.0554
        inside = judge_values(night(0.057), base, noise=noise)
        assert inside.status is Status.INCONCLUSIVE
        assert "no worse than launches accepted before" in inside.reason
        outside = judge_values(night(0.065), base, noise=noise)
        assert outside.status is Status.REGRESSED
        # the smallest loss it would have called: 0.06 + 1.64485·0.0213·√1.25
        assert inside.smallest_detectable_change == pytest.approx(
            -math.expm1(-0.06 - 0.039171), abs=1e-5
        )

    def test_nights_older_than_ten_still_are_accepted_ones(self):
        """With too few launches, an accepted launch of twelve nights ago counts as seen."""
        base = nights([0.1, 0.1, *TEN])
        assert judge_values(night(0.09, (0.0,)), base).status is Status.INCONCLUSIVE
        assert judge_values(night(0.09), base).status is Status.REGRESSED


class TestWhatWouldDecide:
    """INCONCLUSIVE says how many launches would decide, or that none would."""

    noise = Noise(0.02, NORMAL)

    def test_launches_needed(self):
        """Launches of sd 0.03: se² = 0.0004 − 0.0003 + 0.0009/n + 0.0004/10.

        A loss of 2 % passes once se < 0.03 / 1.64485 = 0.018239: n > 4.67, five launches.
        """
        spread = (-0.03, 0.0, 0.03)
        base = nights(TEN, launches=spread)
        finding = judge_values(night(0.02, spread), base, noise=self.noise)
        assert finding.status is Status.INCONCLUSIVE
        assert finding.launches_needed == 5
        assert "5 launches in one night" in finding.reason

    def test_so_many_launches_do_decide(self):
        """The same with as many launches as it asked for: five, of the same sd 0.03."""
        spread = (-0.03, 0.0, 0.03)
        side = 0.03 * math.sqrt(2)
        five = (-side, 0.0, 0.0, 0.0, side)  # sd² = 2·side²/4 = 0.0009
        base = nights(TEN, launches=spread)
        finding = judge_values(night(0.02, five), base, noise=self.noise)
        assert finding.status is Status.PASSED

    def test_no_number_of_launches_helps_where_only_nights_differ(self):
        """Launches agree to the last digit: all noise is the night's; pairs would decide."""
        finding = judge(0.02, noise=self.noise)
        assert finding.status is Status.INCONCLUSIVE
        assert finding.launches_needed is None
        assert finding.open
        assert finding.reason.endswith("launches in turn with a reference would decide")

    def test_nights_that_would_decide(self):
        """One night, 2.3 % lost: se shrinks with the second night, and 2 nights are said."""
        finding = judge(0.023, of=[0.0])
        assert "2 accepted nights" in finding.reason

    def test_too_few_launches_ask_for_three_at_least(self):
        """Three launches let the nights' own small noise be believed."""
        finding = judge(0.040, of=QUIET, launches=(0.0,), alpha=0.0008)
        assert finding.status is Status.INCONCLUSIVE
        assert finding.launches_needed == 3
        assert judge(0.040, of=QUIET, alpha=0.0008).status is Status.REGRESSED

    def test_decided_findings_need_none(self):
        """A verdict that stands asks for nothing."""
        assert judge(0.0).launches_needed is None
        assert judge(0.06).launches_needed is None


def test_no_baseline():
    """Without accepted nights there is a value and nothing to compare it with."""
    finding = judge_values([[990.0, 1010.0]], [])
    assert finding.status is Status.NO_BASELINE
    assert finding.value == pytest.approx(math.sqrt(990 * 1010))
    assert finding.change is None
    assert not finding.open
    assert finding.reason == "no accepted night has output_tps"


def test_no_noise_at_all_is_judged_by_the_smallest_effect():
    """A simulated engine repeats itself exactly: a standard error of 0 is no accident."""
    base = [[[500.0]] * 3] * 6
    assert judge_values([[500.0]] * 3, base).status is Status.PASSED
    assert judge_values([[495.0]] * 3, base).status is Status.PASSED
    assert judge_values([[485.0]] * 3, base).status is Status.REGRESSED


@pytest.mark.parametrize(
    ("candidate", "complaint"),
    [
        ([[1.0], [0.0]], r"ttft\.p99, candidate, launch 2, replay 1: 0\.0 cannot be judged"),
        ([[1.0, -2.0]], r"launch 1, replay 2: -2\.0"),
        ([[math.nan]], r"launch 1, replay 1: nan"),
        ([[1.0, math.inf]], r"launch 1, replay 2: inf"),
        ([["1.0"]], r"launch 1, replay 1: '1\.0'"),
        ([[1.0], []], r"launch 2: no replays"),
        ([], r"candidate: no launches"),
        ([1.0, 2.0], r"launch 1: 1\.0 is not a row of replays"),
        (7.0, r"7\.0 is not launches × replays"),
    ],
)
def test_impossible_values_are_refused_by_name(candidate, complaint):
    """A value without a logarithm is an error that names the figure and the place."""
    with pytest.raises(SpecError, match=complaint):
        judge_values(candidate, nights(TEN), figure="ttft.p99")


def test_impossible_baseline_is_refused_by_name():
    """The third night's second launch is named."""
    base = [*nights([0.0, 0.0]), [[1.0], [0.0]]]
    with pytest.raises(SpecError, match=r"baseline night 3, launch 2, replay 1: 0\.0"):
        judge_values(night(0.0), base)
