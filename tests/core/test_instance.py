"""Instances: means, gaps and laws; the two instances of the paper."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpbai


def test_synthetic_instance_is_that_of_section_5():
    omega = np.linspace(0, 0.8, 27)
    instance = dpbai.synthetic(omega)
    assert (instance.arms, instance.dimension, instance.best) == (30, 2, 0)
    np.testing.assert_allclose(instance.means[:3], [0.5, 0.45, 0.45])
    np.testing.assert_allclose(instance.means[3:], omega / 2 + 0.045)
    np.testing.assert_allclose(instance.gaps[:3], [0, 0.05, 0.05])
    assert (instance.gaps[3:] > 0.05).all()
    assert all(isinstance(law, dpbai.Uniform) for law in instance.laws)
    for law, mean in zip(instance.laws, instance.means, strict=True):
        assert law.support == (0, 2 * mean)
    assert instance.reward_bound == 1


def test_synthetic_omega_is_drawn_from_the_seed():
    first, again, other = (dpbai.synthetic(seed=seed).features[3:, 1] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()
    drawn = np.concatenate([dpbai.synthetic(seed=s).features[3:, 1] for s in range(50)])
    assert drawn.min() >= 0
    assert drawn.max() <= 0.8
    # 1350 uniforms on [0, 0.8]: 6 standard errors of the mean.
    assert abs(drawn.mean() - 0.4) < 6 * 0.8 / np.sqrt(12 * 1350)


@pytest.mark.parametrize(
    ("means", "expected", "bound"),
    [
        ("printed", [0.55, 0.5], 1.1),  # rewards outside the model
        ("in-range", [0.5, 0.45], 1.0),
    ],
)
def test_two_armed_instance_is_that_of_the_appendix(means, expected, bound):
    instance = dpbai.two_armed(x=2.0, y=30.0, gap=0.05, means=means)
    np.testing.assert_array_equal(instance.features, [[2, 0], [0, 30]])
    np.testing.assert_allclose(instance.means, expected)
    np.testing.assert_allclose(instance.gaps, [0, 0.05])
    assert instance.best == 0
    assert instance.reward_bound == pytest.approx(bound)


@given(seed=st.integers(0, 2**32), arms=st.integers(2, 20), dimension=st.integers(1, 5))
def test_means_are_linear_and_gaps_measure_to_the_best(seed, arms, dimension):
    rng = np.random.default_rng(seed)
    features = rng.uniform(0, 1, (arms, dimension))
    theta = rng.uniform(0, 1 / dimension, dimension)
    instance = dpbai.Instance(features, theta, rewards=dpbai.Bernoulli)
    np.testing.assert_allclose(instance.means, [sum(row * theta) for row in features])
    assert instance.means[instance.best] == max(instance.means)
    assert instance.gaps[instance.best] == 0
    np.testing.assert_allclose(instance.gaps, max(instance.means) - instance.means)


def test_laws_are_made_from_means_or_listed():
    features, theta = np.eye(2), [0.25, 0.5]
    beta = dpbai.Instance(features, theta, rewards=partial(dpbai.Beta, concentration=5))
    assert [law.concentration for law in beta.laws] == [5, 5]
    assert [law.mean for law in beta.laws] == theta
    listed = dpbai.Instance(features, rewards=[dpbai.Empirical([0, 1]), dpbai.Bernoulli(0.7)])
    assert listed.theta is None
    np.testing.assert_allclose(listed.means, [0.5, 0.7])


def test_a_tie_that_rounding_hides_is_still_a_tie():
    """0.1 + 0.2 is not 0.3 in floats, but these two arms are equally good."""
    assert 0.1 + 0.2 != 0.3
    with pytest.raises(ValueError, match=r"unique, but arms \[0, 2\]"):
        dpbai.Instance([[0.1, 0.2], [0.1, 0], [0.3, 0]], [1, 1], rewards=dpbai.Bernoulli)
    # A gap that is small, but not a rounding error.
    assert dpbai.Instance([[0.3 + 1e-9], [0.3]], [1], rewards=dpbai.Bernoulli).best == 0


def test_arrays_are_read_only_copies():
    features = np.eye(2)
    instance = dpbai.Instance(features, [0.2, 0.5])
    features[0, 0] = 9
    assert instance.features[0, 0] == 1
    for array in (instance.features, instance.theta, instance.means, instance.gaps):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
