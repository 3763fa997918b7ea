"""The command line after a save, with input from a service, and with other processes."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from runs import finish

import dpbai
from dpbai.field import cli
from dpbai.field.cli import steps

ARMS = "arm,x,y,z\nfl\u00fcr,1,0,0\n\u65e5\u672c,0,1,0\nplain,0,0,1\n"
START = ("start", "run.json", "arms.csv", "--budget", 60, "--epsilon", 1, "--policy", "baseline")


@pytest.fixture
def begun(call, tmp_path):
    """A run with three arms whose names are in several scripts, and with a batch."""
    (tmp_path / "arms.csv").write_text(ARMS, encoding="utf-8")
    (tmp_path / "one.csv").write_text("arm,reward\nfl\u00fcr,1\n\u65e5\u672c,0\nplain,0\n")
    assert call(*START)[0] == 0
    assert call("tell", "run.json", "one.csv", "--batch", "f\u00fcnf")[0] == 0
    return tmp_path


def received(session):
    """Return the number of rewards in the current phase."""
    return session.phase.cost - sum(session.requests.values())


def broken_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w")


def closed():
    stream = io.TextIOWrapper(io.BytesIO())
    stream.close()
    return stream


STREAMS = {
    "ascii": lambda: io.TextIOWrapper(io.BytesIO(), encoding="ascii"),
    "cp1252": lambda: io.TextIOWrapper(io.BytesIO(), encoding="cp1252"),
    "full": lambda: os.fdopen(os.open("/dev/full", os.O_WRONLY), "w"),
    "closed": closed,
    "none": lambda: None,
    "pipe": broken_pipe,
}
STEPS = {
    "start": ("start", "new.json", *START[2:]),
    "tell": ("tell", "run.json", "one.csv", "--batch", "sechs"),
    "undo": ("undo", "run.json", "f\u00fcnf"),
    "withdraw": ("withdraw", "run.json", "fl\u00fcr"),
    "end-phase": ("end-phase", "run.json"),
    "follow": ("tell", "run.json", "-", "--follow"),
}
LINE = '{"arm": "fl\u00fcr", "reward": 1}\n'


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("step", STEPS)
def test_what_was_saved_is_reported_with_exit_code_0_even_if_output_fails(
    step, stream, begun, monkeypatch
):
    """If it seemed to have failed, a user would record the same rewards twice."""
    out, err = STREAMS[stream](), io.StringIO()
    if step == "follow":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LINE.encode())))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    before = (begun / "run.json").read_bytes()
    assert cli.main([str(word) for word in STEPS[step]]) == 0
    assert (begun / "run.json").read_bytes() != before or (begun / "new.json").exists()
    if stream in ("ascii", "cp1252"):
        printed = out.buffer.getvalue().decode(out.encoding)
        assert err.getvalue() == ""
    else:
        printed = err.getvalue()
        assert printed.startswith("dpbai: note: stdout cannot be written to; the answer is:\n")
    if stream in ("full", "pipe"):
        out.close()
    said = {
        "start": "new.json is ready", "tell": "Recorded 3 rewards", "undo": "Removed batch f",
        "withdraw": "is withdrawn", "end-phase": "Phase 1 was ended", "follow": '"missing": ',
    }  # fmt: skip
    assert said[step] in printed
    if step == "follow":
        assert json.loads(printed.splitlines()[-1])["missing"] > 0


@pytest.mark.parametrize("way", ["1>/dev/full", "1>&- 2>&-"])
def test_a_process_whose_output_fails_when_it_ends_has_exit_code_0_if_it_saved(way, begun, done):
    before = (begun / "run.json").read_bytes()
    command = f"'{sys.executable}' -m dpbai tell run.json one.csv {way}"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, shell=True, cwd=begun, env=environment, check=False)
    assert done.returncode == 0
    assert (begun / "run.json").read_bytes() != before


@pytest.mark.usefixtures("begun")
def test_a_command_that_only_prints_fails_if_it_cannot_print(monkeypatch):
    err, out = io.StringIO(), STREAMS["full"]()
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(sys, "stdout", out)
    assert cli.main(["status", "run.json"]) == 1
    assert "No space left" in err.getvalue()
    out.close()


# Lines that a service sends.

NASTY = [
    b'{"arm": "plain", "reward": 0.7311, "batch": "\\ud800"}',
    b'{"arm": "plain", "reward": 0.7311, "batch": "\\u001b[2J"}',
    b'{"arm": "plain", "reward": 0.7311, "batch": "a\\nRecommended: b"}',
    b'{"arm": "plain", "reward": "x", "batch": 0.7311}',
    b'{"arm": 0.7311, "reward": "plain"}',
    b'{"arm": "\\ud800", "reward": 0.7311}',
    b"[" * 50_000,
    b'{"arm": ' + b"[" * 3000 + b"]" * 3000 + b', "reward": 0.7311}',
    b'{"arm": "plain", "reward": ' + b"[" * 3000 + b"]" * 3000 + b"}",
    b'{"arm": "plain", "reward": 0.7311, "batch": ' + b"[" * 3000 + b"]" * 3000 + b"}",
    b'{"arm": "pl\xe9in", "reward": 0.7311}',
    b"\xff\xfe\x00",
    b"\x00" * 10,
    b'{"arm": "plain", "reward": 1e999}',
    b'{"arm": "plain", "reward": NaN}',
    b'{"arm": "plain", "reward": ' + b"9" * 5000 + b"}",
    b'{"arm": "plain", "reward": [0.7311]}',
    b'{"arm": "plain", "reward": {"7311": 1}}',
    b'{"arm": "plain", "reward": null}',
    b'{"arm": "plain", "reward": 0.7311, "batch": "' + b"7311" * 50_000 + b'"}',
]  # fmt: skip


def test_no_line_that_is_sent_ends_the_process(call, done, begun, monkeypatch):
    lines = [*NASTY, b'{"arm": "plain", "reward": 0.5, "batch": "good"}']
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n".join(lines))))
    out = done("tell", "run.json", "-", "--follow")
    answers = [json.loads(line) for line in out.splitlines()]
    assert len(answers) == len(lines)
    assert ["error" in answer for answer in answers] == [True] * len(NASTY) + [False]
    assert "7311" not in out
    assert out.isascii()
    code, out, _ = call("status", "run.json")
    assert (code, "Batches so far: f\u00fcnf, good\n" in out) == (0, True)
    session = dpbai.Session.resume(begun / "run.json")
    assert received(session) == 4


# Other processes.


def test_follow_continues_after_another_process_has_recorded_rewards(done, begun, monkeypatch):
    class Stdin:
        """Before each line but the first, another process takes a step."""

        buffer = property(lambda self: self)

        def __init__(self):
            self.lines = [LINE.encode(), LINE.encode(), b""]

        def readline(self, _):
            if len(self.lines) == 2:
                other = dpbai.Session.resume(begun / "run.json")
                other.record({"plain": [0.5]}, batch="other")
            return self.lines.pop(0)

    monkeypatch.setattr(sys, "stdin", Stdin())
    out = done("tell", "run.json", "-", "--follow")
    first, second = (json.loads(line)["missing"] for line in out.splitlines())
    assert first - second == 2
    assert received(dpbai.Session.resume(begun / "run.json")) == 6


def test_a_tell_that_meets_another_process_is_repeated_and_counts_once(call, begun, monkeypatch):
    original, overtaken = steps.tables.read_rewards, []

    def slow(*arguments):
        sums = original(*arguments)
        dpbai.Session.resume(begun / "run.json").record({"plain": [0.5]}, batch="other")
        overtaken.append(True)
        return sums

    monkeypatch.setattr(steps.tables, "read_rewards", slow)
    assert call("tell", "run.json", "one.csv")[0] == 0
    assert overtaken == [True]
    assert received(dpbai.Session.resume(begun / "run.json")) == 7


def test_end_phase_does_not_end_the_next_phase_if_another_process_completed_this_one(
    refused, begun, monkeypatch
):
    original = steps.resumed

    def slow(path, seed=None):
        session = original(path, seed)
        other = dpbai.Session.resume(path)
        if not other.released:
            other.record({arm: [0.5] * n for arm, n in other.requests.items()})
        return session

    monkeypatch.setattr(steps, "resumed", slow)
    assert "phase 1 was completed and released in the meantime" in refused("end-phase", "run.json")
    assert len(dpbai.Session.resume(begun / "run.json").released) == 1


@pytest.mark.usefixtures("begun")
def test_an_interrupted_step_says_how_to_see_what_was_recorded(call, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(dpbai.Session, "record_sums", interrupted)
    code, _, err = call("tell", "run.json", "one.csv")
    assert (code, err) == (130, "dpbai: interrupted; `dpbai status` shows what has been recorded\n")


# Totals, withdrawn arms, the report, and the ledger.


@pytest.mark.parametrize("total", ["2.1", "2,1", "1.4"])
def test_a_total_at_the_end_of_a_decimal_range_is_accepted(total, call, refused, tmp_path):
    (tmp_path / "arms.csv").write_text(ARMS, encoding="utf-8")
    assert call(*START, "--reward-range", 0, 0.7)[0] == 0
    count = 2 if total == "1.4" else 3
    rows = f"arm;total;count\nplain;{total};{count}\nplain;{total};{count}\n"
    (tmp_path / "sums.csv").write_text(rows)
    assert call("tell", "run.json", "sums.csv")[0] == 0
    session = dpbai.Session.resume(tmp_path / "run.json")
    assert session._run.totals["plain"] == (2 * count, 2 * count)
    (tmp_path / "sums.csv").write_text("arm,total,count\nplain,2.1000001,3\n")
    assert "line 2: total must lie in [0, 0.7] times count" in refused(
        "tell", "run.json", "sums.csv"
    )


def test_a_run_ends_without_an_arm_that_was_withdrawn(call, done, refused, begun):
    assert "did you mean plain?" in refused("withdraw", "run.json", "plane")
    out = done("withdraw", "run.json", "plain")
    assert out.startswith("plain is withdrawn.\nPhase 1 needs: fl\u00fcr")
    assert "plain" not in call("next", "run.json")[1]
    assert "only an arm that is in play" in refused("withdraw", "run.json", "plain")
    session = finish(begun / "run.json")
    code, out, _ = call("recommend", "run.json")
    assert code == 0
    assert "withdrawn" in next(line for line in out.splitlines() if line.split()[0] == "plain")
    assert f"arm 'plain' was withdrawn with 1 of {session.phases[0].pulls[2]} rewards" in " ".join(
        out.split()
    )


def test_recommend_states_the_interval_and_the_guarantee_of_a_group(call, begun):
    session = finish(begun / "run.json")
    interval = session.interval()
    out = " ".join(call("recommend", "run.json")[1].split())
    assert f"between {interval.low:.4g} and {interval.high:.4g}: in at least 95% of runs" in out
    moved = f"Noise moves the estimate by at most {interval.noise:.4g}, sampling by"
    assert f"{moved} {interval.sampling:.4g}." in out
    printed = json.loads(call("recommend", "run.json", "--json", "--group", 3)[1])
    assert printed["interval"] == vars(interval)
    assert printed["epsilon"] == session.group_certificate(3).epsilon
    assert (
        "For one group of 3 (reward): epsilon = 3" in call("recommend", "run.json", "--group", 3)[1]
    )


def test_ledger_states_the_loss_of_several_runs(call, done, refused, begun):
    for name, people in (("a.json", "north"), ("b.json", "north"), ("c.json", "south")):
        assert call("start", name, *START[2:], "--population", people)[0] == 0
    (begun / "copy.json").write_bytes(b"")
    finish(begun / "a.json")
    (begun / "copy.json").write_bytes((begun / "a.json").read_bytes())
    files = ("a.json", "b.json", "c.json", "copy.json")
    out = done("ledger", *files, "-o", "ledger.csv")
    assert "Not counted, as they are copies: copy.json" in out
    assert "epsilon = 2, delta = 0" in " ".join(out.split())
    assert (begun / "ledger.csv").read_text().startswith("run,population,epsilon,delta,released\n")
    printed = json.loads(call("ledger", *files, "run.json", "--group", 2, "--json")[1])
    assert printed["epsilon"] == pytest.approx(6, rel=1e-9)
    assert [row["population"] for row in printed["runs"]] == [
        "north", "north", "south", "north", None
    ]  # fmt: skip
    assert "would be overwritten" in refused("ledger", "a.json", "b.json", "-o", "b.json")
    assert "name each run only once" in refused("ledger", "b.json", "c.json", "./b.json")
