"""Studies in any executor, with workers that die, and studies that are resumed."""

import json
import warnings
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from deadly_policy import Deadly

import dpbai

STUDY = import_module("dpbai.study")

INSTANCE = dpbai.synthetic(seed=0)
GRID = {
    "policies": {"DP-BAI": dpbai.DPBAI, "OD-LinBAI": dpbai.ODLinBAI},
    "instance": INSTANCE,
    "budgets": [60, 120],
    "epsilons": [0.5, 2.0],
    "trials": 200,
    "seed": 3,
}
CELLS = 6


def grid(**changes):
    return dpbai.study(**{**GRID, **changes})


DEADLY = {
    "policies": {"DP-BAI": dpbai.DPBAI, "deadly": Deadly},
    "budgets": [60],
    "epsilons": [0.5],
}


@pytest.fixture(scope="module")
def serial():
    return grid()


@pytest.fixture(scope="module")
def serial_deadly():
    return grid(**DEADLY)


# Any executor.


def new_pool():
    return ProcessPoolExecutor(2, mp_context=get_context("spawn"))


@pytest.fixture(scope="module")
def pool():
    with new_pool() as pool:
        yield pool


def test_a_process_pool_gives_the_table_of_the_serial_run(serial, pool):
    """A call that failed in the pool would warn, and a warning is an error here."""
    pd.testing.assert_frame_equal(grid(executor=pool), serial)


def test_one_long_simulation_is_the_same_in_a_pool(pool, monkeypatch):
    """Three parts, the last of them short."""
    monkeypatch.setattr(import_module("dpbai.simulate"), "_PART", 1000)
    policy = dpbai.DPBAI(INSTANCE.features, budget=60, epsilon=0.5)
    options = {"trials": 2100, "seed": 5}
    alone = dpbai.simulate(policy, INSTANCE, **options)
    together = dpbai.simulate(policy, INSTANCE, **options, executor=pool)
    assert alone.trials == 2100
    assert (together.recommended == alone.recommended).all()
    for name in ("pulls", "epsilon", "delta"):
        assert getattr(together, name) == getattr(alone, name)
    assert (together.gaps == alone.gaps).all()


def test_parts_of_a_long_simulation_share_no_randomness(monkeypatch):
    """Otherwise parts of one trial each would all be equal."""
    monkeypatch.setattr(import_module("dpbai.simulate"), "_PART", 1)
    policy = dpbai.DPBAI(INSTANCE.features, budget=30, epsilon=0.01)
    result = dpbai.simulate(policy, INSTANCE, trials=50, seed=0)
    assert result.trials == 50
    assert np.count_nonzero(result.recommended) > 1


def test_threads_give_the_table_of_the_serial_run(serial):
    with ThreadPoolExecutor(3) as threads:
        pd.testing.assert_frame_equal(grid(executor=threads), serial)


def test_a_dask_cluster_gives_the_table_of_the_serial_run_also_when_workers_die(
    serial, serial_deadly
):
    import dask
    import distributed

    local = {"processes": True, "n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with (
        warnings.catch_warnings(),
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
    ):
        warnings.simplefilter("ignore")  # Dask's own
        warnings.filterwarnings("error", message=".*run again in this process")
        with (
            distributed.LocalCluster(silence_logs=50, **local) as cluster,
            distributed.Client(cluster) as client,
        ):
            # Not as a context: its end waits for tasks that died with their worker, now and then
            # for ever.
            executor = client.get_executor()
            pd.testing.assert_frame_equal(grid(executor=executor), serial)
            with pytest.warns(RuntimeWarning, match="calls failed in the executor.*KilledWorker"):
                table = grid(**DEADLY, executor=executor)
            pd.testing.assert_frame_equal(table, serial_deadly)


# Workers that die.


def test_cells_whose_worker_died_are_run_again_with_the_same_seeds(serial_deadly):
    with new_pool() as pool:
        for reason in (
            "BrokenProcessPool",
            "2 of 2 calls",
        ):  # broken during the study, then from the start
            with pytest.warns(RuntimeWarning, match="calls failed in the executor") as caught:
                table = grid(**DEADLY, executor=pool)
            assert reason in str(caught[0].message)
            pd.testing.assert_frame_equal(table, serial_deadly)


class Moody(Executor):
    """An executor that runs every other call, and fails the others in different ways."""

    def __init__(self):
        self.submitted = 0

    def submit(self, function, /, *args, **kwargs):
        self.submitted += 1
        future = Future()
        if self.submitted == 2:
            future.cancel()
            future.set_running_or_notify_cancel()
        elif self.submitted == 4:
            future.set_exception(MemoryError("worker"))
        elif self.submitted == 5:
            raise BrokenProcessPool("no more")
        else:
            future.set_result(function(*args, **kwargs))
        return future


def test_cells_that_were_cancelled_or_refused_are_run_again(serial):
    with pytest.warns(RuntimeWarning, match="3 of 6 calls failed in the executor"):
        table = grid(executor=Moody())
    pd.testing.assert_frame_equal(table, serial)


def test_an_error_of_the_simulation_itself_is_raised(monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(STUDY, "simulate", broken)
    with (
        ThreadPoolExecutor(1) as threads,
        pytest.warns(RuntimeWarning, match="6 of 6"),
        pytest.raises(ZeroDivisionError, match="a bug"),
    ):
        grid(executor=threads)


# Studies that are resumed.


@pytest.fixture
def counted(monkeypatch):
    """Counts simulations, and stops the study after a given number."""

    class Counter:
        calls, stop = 0, np.inf

    def simulate(*arguments, **options):
        if Counter.calls == Counter.stop:
            raise KeyboardInterrupt
        Counter.calls += 1
        return dpbai.simulate(*arguments, **options)

    monkeypatch.setattr(STUDY, "simulate", simulate)
    return Counter


@pytest.mark.parametrize("done", range(CELLS + 1))
def test_a_study_that_was_stopped_runs_the_missing_cells_alone(done, serial, counted, tmp_path):
    path = tmp_path / "cells.jsonl"
    counted.stop = done
    if done < CELLS:
        with pytest.raises(KeyboardInterrupt):
            grid(path=path)
    else:
        grid(path=path)
    counted.calls, counted.stop = 0, np.inf
    pd.testing.assert_frame_equal(grid(path=path), serial)
    assert counted.calls == CELLS - done
    assert len(path.read_text().splitlines()) == 1 + CELLS
    pd.testing.assert_frame_equal(grid(path=path), serial)
    assert counted.calls == CELLS - done


def test_a_study_in_a_pool_is_resumed_without_one(serial, counted, tmp_path):
    path = tmp_path / "cells.jsonl"
    with ThreadPoolExecutor(2) as threads:
        pd.testing.assert_frame_equal(grid(executor=threads, path=path), serial)
    assert counted.calls == CELLS
    pd.testing.assert_frame_equal(grid(path=path), serial)
    assert counted.calls == CELLS


def test_a_last_line_that_was_cut_short_is_run_again(serial, tmp_path):
    path = tmp_path / "cells.jsonl"
    grid(path=path)
    data = path.read_bytes()
    last = data[:-1].rfind(b"\n") + 1
    for length in range(last, len(data), 9):
        path.write_bytes(data[:length])
        pd.testing.assert_frame_equal(grid(path=path), serial)
        assert path.read_bytes() == data


@pytest.mark.parametrize(
    "change",
    [
        {"budgets": [60, 121]},
        {"budgets": [60]},
        {"epsilons": [0.5, np.nextafter(2, 3)]},
        {"trials": 201},
        {"seed": 4},
        {"seed": np.random.SeedSequence(3, spawn_key=(1,))},
        {"instance": dpbai.synthetic(seed=1)},
        {"instance": dpbai.Instance(INSTANCE.features, INSTANCE.theta, rewards=dpbai.Bernoulli)},
        {"policies": {"Baseline": dpbai.Baseline, "OD-LinBAI": dpbai.ODLinBAI}},
        {"policies": {"another name": dpbai.DPBAI, "OD-LinBAI": dpbai.ODLinBAI}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_file_of_another_study_is_refused_and_left_as_it_is(change, tmp_path):
    path = tmp_path / "cells.jsonl"
    grid(path=path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="path must be a new file, or a file of the same study"):
        grid(path=path, **change)
    assert path.read_bytes() == before


def test_a_file_that_is_no_study_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "cells.jsonl"
    for content in (b"precious\n", b"\xff\xfe", b"{}\n[]\n", b"\n"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="path must be a new file"):
            grid(path=path)
        assert path.read_bytes() == content


def test_a_damaged_line_is_refused_by_its_number(tmp_path):
    path = tmp_path / "cells.jsonl"
    grid(path=path)
    lines = path.read_text().splitlines()
    cell, result = json.loads(lines[2])
    for damaged in (
        "", "[]", "null", "{", "[1]", json.dumps([CELLS, result]), json.dumps([-1, result]),
        json.dumps([cell, {**result, "recommended": result["recommended"][1:]}]),
        json.dumps([cell, {**result, "recommended": [1] * 30}]),
        json.dumps([cell, {**result, "recommended": [-1, 201] + [0] * 28}]),
        json.dumps([cell, {**result, "recommended": None}]),
        json.dumps([cell, {**result, "surplus": 1}]),
        json.dumps([cell, {key: value for key, value in result.items() if key != "pulls"}]),
    ):  # fmt: skip
        path.write_text("\n".join([*lines[:2], damaged, *lines[3:]]) + "\n")
        with pytest.raises(ValueError, match=r"line 3 of .* is damaged: delete this line"):
            grid(path=path)


def test_without_a_damaged_line_a_study_continues_as_its_message_says(tmp_path, serial):
    path = tmp_path / "cells.jsonl"
    grid(path=path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:2], *lines[3:]]))
    pd.testing.assert_frame_equal(grid(path=path), serial)
    assert sorted(path.read_text().splitlines()) == sorted("".join(lines).splitlines())


def test_two_processes_may_begin_one_file(tmp_path, serial, monkeypatch):
    """Each finds no file and writes a header; the slower one may be a study of another seed."""
    path = tmp_path / "cells.jsonl"
    pd.testing.assert_frame_equal(grid(path=path), serial)
    head, *cells = path.read_text().splitlines(keepends=True)
    path.write_text("".join([head, cells[0], head, *cells[1:3], head]))
    pd.testing.assert_frame_equal(grid(path=path), serial)
    # The other process sees no file yet, and then finds a header that is not its own.
    before = path.read_text()
    with monkeypatch.context() as late:
        late.setattr(Path, "exists", lambda _: False)
        with pytest.raises(ValueError, match="path must be a new file, or a file of the same"):
            grid(path=path, seed=4)
    assert path.read_text().startswith(before)
    pd.testing.assert_frame_equal(grid(path=path), serial)


def test_a_cell_is_appended_by_one_write(tmp_path, monkeypatch):
    """The file is opened in append mode, unbuffered, so that lines of two processes do not mix."""
    written = []
    opened = Path.open

    def spy(path, mode="r", buffering=-1, **options):
        if "a" in mode:
            written.append(buffering)
        return opened(path, mode, buffering, **options)

    monkeypatch.setattr(Path, "open", spy)
    grid(path=tmp_path / "cells.jsonl")
    assert written == [0] * (CELLS + 1)
