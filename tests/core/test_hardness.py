"""The hardness parameter, eqs. (hardness-term-overall) and (hardness-term)."""

import math

import numpy as np
import pytest

import dpbai


def _instance(gaps, dimension, seed=0):
    """An instance with the given gaps: the first feature is the mean, the others are noise."""
    rng = np.random.default_rng(seed)
    means = 1 - np.asarray(gaps)
    features = np.column_stack([means, rng.normal(size=(len(gaps), dimension - 1))])
    return dpbai.Instance(features, np.eye(dimension)[0], rewards=dpbai.Bernoulli)


@pytest.mark.parametrize("dimension", [2, 3, 5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 7.0])
def test_hardness_is_the_largest_ratio_of_rank_to_gap(dimension, epsilon):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        gaps = np.append(0, rng.uniform(0.01, 1, 12))
        rng.shuffle(gaps)
        hard = dpbai.hardness(_instance(gaps, dimension, seed), epsilon=epsilon)
        ordered = sorted(gaps)
        eligible = range(2, min(dimension**2, 13) + 1)
        bai = {i: i / ordered[i - 1] ** 2 for i in eligible}
        pri = {i: i / (epsilon * ordered[i - 1]) for i in eligible}
        assert hard.bai == pytest.approx(max(bai.values()))
        assert hard.pri == pytest.approx(max(pri.values()))
        assert hard.total == hard.bai + hard.pri
        assert hard.bai == pytest.approx(bai[hard.bai_index])
        assert hard.pri == pytest.approx(pri[hard.pri_index])
        assert np.allclose(hard.gaps, ordered)
        assert hard.gap(2) == hard.gaps[1]


def test_arms_beyond_the_square_of_the_dimension_do_not_count():
    gaps = [0, *[0.5] * 20]
    assert dpbai.hardness(_instance(gaps, 2), epsilon=1.0).bai_index == 4
    assert dpbai.hardness(_instance(gaps, 3), epsilon=1.0).bai_index == 9
    assert dpbai.hardness(_instance(gaps, 5), epsilon=1.0).bai_index == 21


def test_without_privacy_and_with_few_arms_hardness_is_the_h2_of_audibert_and_bubeck():
    means = np.array([0.9, 0.7, 0.6, 0.1])
    instance = dpbai.Instance(np.eye(4), means, rewards=dpbai.Bernoulli)
    hard = dpbai.hardness(instance, epsilon=math.inf)
    assert hard.pri == 0
    assert hard.total == pytest.approx(max(2 / 0.2**2, 3 / 0.3**2, 4 / 0.8**2))


def test_both_hardnesses_exceed_one_below_epsilon_two():
    """Gaps are at most 1 and i is at least 2, which the proof of the lower bound uses."""
    instance = dpbai.Instance(np.eye(2), [1.0, 0.0], rewards=dpbai.Bernoulli)
    assert dpbai.hardness(instance, epsilon=1.999).bai == 2
    assert dpbai.hardness(instance, epsilon=1.999).pri > 1
    assert dpbai.hardness(instance, epsilon=2.001).pri < 1


def test_one_dimension_has_no_hardness():
    instance = dpbai.Instance([[1.0], [0.5], [0.2]], [0.5])
    with pytest.raises(ValueError, match="dimension 2 or more"):
        dpbai.hardness(instance, epsilon=1.0)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan])
def test_hardness_rejects_an_epsilon_out_of_range(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        dpbai.hardness(dpbai.synthetic(), epsilon=epsilon)
