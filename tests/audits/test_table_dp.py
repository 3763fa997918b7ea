"""The definitions of Sec. 2 and of the appendix on table-DP, on all tables of zeros and ones."""

import math
from collections import Counter
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import pytest

import dpbai
from dpbai.audits import PullByPull, TableGrid
from dpbai.audits.pull import output_law


@dataclass(frozen=True)
class Responder:
    """Win-stay, lose-shift by a randomised response to each reward of 0 or 1.

    It is private if `truthful`, the probability of the true response, is less than 1.
    """

    truthful: float
    arms: int = 2
    budget: int = 3

    def next_arm(self, history):
        if not history:
            return np.full(self.arms, 1 / self.arms)
        arm, reward = history[-1]
        high = self.truthful if reward == 1 else 1 - self.truthful
        law = np.zeros(self.arms)
        law[arm] += high
        law[(arm + 1) % self.arms] += 1 - high
        return law

    recommend = next_arm


@dataclass(frozen=True)
class Greedy:
    """Pulls each arm once, then always the arm with the largest mean; not private."""

    arms: int = 2
    budget: int = 3

    def next_arm(self, history):
        pulled = Counter(arm for arm, _ in history)
        means = [
            sum(reward for a, reward in history if a == arm) / pulled[arm] if pulled[arm] else 2
            for arm in range(self.arms)
        ]
        return np.eye(self.arms)[int(np.argmax(means))]

    recommend = next_arm


@dataclass(frozen=True)
class Leak:
    """Pulls a random arm, and recommends by its reward with probability `often`."""

    often: float
    arms: int = 2
    budget: int = 1

    def next_arm(self, history):  # noqa: ARG002
        return np.full(self.arms, 1 / self.arms)

    def recommend(self, history):
        by_reward = np.eye(self.arms)[int(history[0][1])]
        return self.often * by_reward + (1 - self.often) * np.eye(self.arms)[0]


def losses(policy):
    """Return epsilon of the policy by Definition 2.1, and of its dual by that of table-DP."""
    own = dpbai.pull_audit(policy)
    dual = dpbai.pull_audit(policy, neighbours="column", time_indexed=True)
    return own.epsilon, dual.epsilon


@pytest.mark.parametrize("truthful", [0.5, 0.6, 0.9])
@pytest.mark.parametrize(("arms", "budget"), [(2, 1), (2, 2), (2, 3), (3, 2)])
def test_a_private_policy_and_its_dual_have_the_same_loss(truthful, arms, budget):
    """The two propositions together: the equivalence holds with the same epsilon."""
    own, dual = losses(Responder(truthful, arms, budget))
    assert own == pytest.approx(math.log(truthful / (1 - truthful)), abs=1e-12)
    assert dual == pytest.approx(own, abs=1e-12)


@pytest.mark.parametrize("policy", [Greedy(), Greedy(budget=4), Greedy(arms=3), Responder(1.0)])
def test_a_policy_without_privacy_has_a_dual_without_privacy(policy):
    assert losses(policy) == (math.inf, math.inf)


@pytest.mark.parametrize("budget", [3, 4])
def test_dp_bai_satisfies_the_papers_definition_itself(budget):
    """The sequence of pulls of DP-BAI has the same loss as its transcript, over all tables."""
    policy = dpbai.DPBAI(np.eye(2), budget=budget, epsilon=1.0)
    exact = dpbai.exact_audit(policy).epsilon
    assert losses(PullByPull(policy)) == pytest.approx((exact, exact), rel=1e-12)
    assert exact <= 1


def test_an_elimination_policy_pulls_as_its_phases_plan():
    """In one dimension only arm 0 is pulled. Three arms need two phases, with 3 and 2 pulls."""
    single = PullByPull(dpbai.DPBAI([[1.0], [0.5]], budget=3, epsilon=1.0))
    pulled = {output[:-1] for output in output_law(single, [[1.0, 0.0, 1.0], [0.0] * 3])}
    assert pulled == {(0, 0, 0)}
    phases = PullByPull(dpbai.DPBAI(np.eye(3), budget=7, epsilon=1.0))
    law = output_law(phases, np.zeros((3, 7)))
    assert {output[:5] for output in law} == {(0, 1, 2, *s) for s in [(0, 1), (0, 2), (1, 2)]}
    assert {output[5:7] for output in law} == {(0, 0)}
    assert sum(law.values()) == pytest.approx(1)
    assert law[(0, 1, 2, 1, 2, 0, 0, 1)] == pytest.approx(1 / 6)


def test_changing_all_rewards_of_one_pull_index_has_a_larger_loss_than_one_reward():
    """The other meaning of a column, not that of table-DP: the n-th rewards of all arms."""
    policy = PullByPull(dpbai.DPBAI(np.eye(2), budget=3, epsilon=1.0))
    together = dpbai.pull_audit(policy, neighbours="column").epsilon
    assert together > dpbai.pull_audit(policy).epsilon
    assert together <= dpbai.certificate(policy.policy, neighbours="pull index").epsilon


def test_the_equivalence_is_one_of_pure_privacy():
    """With epsilon = 0 the policy needs delta = often / 2, but its dual, with table-DP, twice that.

    The pull is of either arm, so one reward is read half of the time, but a column always. The
    proofs construct the other table from the output z, so that they compare single outputs. A sum
    over outputs, which delta needs, would use another table for each of them.
    """
    policy = Leak(0.3)
    own = dpbai.pull_audit(policy)
    dual = dpbai.pull_audit(policy, neighbours="column", time_indexed=True)
    assert own.delta_at(0.0) == pytest.approx(0.15)
    assert dual.delta_at(0.0) == pytest.approx(0.30)
    assert own.epsilon == dual.epsilon == math.inf


def test_with_random_rewards_a_policy_and_its_dual_have_the_same_law():
    """The laws on fixed tables are averaged over independent rewards."""
    mean = 0.3
    for policy in (Responder(0.8), Greedy()):
        totals = [Counter(), Counter()]
        for values in product((0, 1), repeat=6):
            weight = mean ** sum(values) * (1 - mean) ** (6 - sum(values))
            for dual in (False, True):
                law = output_law(policy, np.reshape(values, (2, 3)), time_indexed=dual)
                for output, probability in law.items():
                    totals[dual][output] += weight * probability
        assert totals[0] == pytest.approx(totals[1])
        assert totals[0].total() == pytest.approx(1)


def test_a_pull_reads_the_next_reward_of_its_arm_and_the_dual_that_of_the_time():
    """Greedy pulls arms 0 and 1, then the better one."""
    table = [[0.0, 1.0, 0.0], [0.5, 0.0, 1.0]]
    # arm 0: 0, arm 1: 0.5; then arm 1 again: its second reward, 0; means 0 and 0.25.
    assert output_law(Greedy(), table) == {(0, 1, 1, 1): 1.0}
    # The dual reads x_{1,2} = 0 at time 2, a tie; then x_{0,3} = 0.
    assert output_law(Greedy(), table, time_indexed=True) == {(0, 1, 0, 0): 1.0}


def test_the_printed_n_i_t_would_read_one_reward_at_all_times():
    """The proofs define n_{i,t} by a sum over all T times, but use the number of pulls up to t.

    As printed, all pulls of an arm in z correspond to the same entry of x, which cannot be equal to
    all the rewards that the dual reads.
    """
    z = (0, 1, 0)
    printed = [sum(a == z[t] for a in z) for t in range(3)]
    meant = [sum(a == z[t] for a in z[: t + 1]) for t in range(3)]
    assert len({(z[t], printed[t]) for t in range(3)}) == 2
    assert len({(z[t], meant[t]) for t in range(3)}) == 3
    dual_table = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    policy, x = Responder(0.8), np.zeros((2, 2, 3))
    for k, counts in enumerate((meant, printed)):
        for t in range(3):
            x[k][z[t], counts[t] - 1] = dual_table[z[t], t]
    dual = output_law(policy, dual_table, time_indexed=True)
    output = (*z, 1)
    assert output_law(policy, x[0])[output] == pytest.approx(dual[output])
    assert output_law(policy, x[1])[output] != pytest.approx(dual[output])


def test_neighbours_differ_in_one_entry_and_column_neighbours_in_one_column():
    grid = TableGrid.full(2, 3)
    assert grid.size == 64
    tables = [np.array(grid.table(i)) for i in range(64)]
    assert len({t.tobytes() for t in tables}) == 64
    pairs = list(combinations(range(64), 2))
    near = [p for p in pairs if np.count_nonzero(tables[p[0]] != tables[p[1]]) == 1]
    column = [p for p in pairs if (tables[p[0]] != tables[p[1]]).any(axis=0).sum() == 1]
    assert {tuple(sorted(p)) for p in grid.neighbours().tolist()} == set(near)
    assert {tuple(sorted(p)) for p in grid.column_neighbours().tolist()} == set(column)
    assert len(grid.neighbours()) == len(near) == 6 * 32
    assert len(grid.column_neighbours()) == len(column) == 3 * 6 * 16


def test_a_block_has_one_step_for_each_number_of_high_rewards():
    grid = TableGrid((((0, 0), (0, 1)), ((1, 0),)), rewards=(0.0, 1.1))
    assert grid.shape == (3, 2)
    assert [grid.table(i) for i in (0, 3, 4)] == [
        ((0.0, 0.0), (0.0,)),
        ((1.1, 0.0), (1.1,)),
        ((1.1, 1.1), (0.0,)),
    ]
    assert len(grid.neighbours()) == 2 * 2 + 3


@pytest.mark.parametrize(
    ("table", "rule"),
    [
        (np.zeros((3, 3)), "one row for each of 2 arms, got 3"),
        (np.zeros((2, 1)), "more than 1 rewards of arm"),
        (np.full((2, 3), 1.0000001), r"rewards in \[0, 1\]"),
        (np.full((2, 3), -0.25), r"rewards in \[0, 1\]"),
        (np.full((2, 3), math.nan), "table must be finite"),
    ],
)
def test_bad_tables_are_refused_in_messages_without_rewards(table, rule):
    with pytest.raises(ValueError, match=rule) as error:
        output_law(Greedy(), table)
    assert "1.0000001" not in str(error.value)
    assert "0.25" not in str(error.value)


def test_bad_audits_are_refused():
    with pytest.raises(ValueError, match="neighbours must be one of"):
        dpbai.pull_audit(Greedy(), neighbours="row")
    with pytest.raises(ValueError, match="an exact audit may compute at most"):
        dpbai.pull_audit(Greedy(budget=10))
