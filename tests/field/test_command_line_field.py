"""The command line with tables as people have them, and with problems of real runs."""

import csv
import io
import json
import math
import re
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import finish, requests_of

import dpbai
from dpbai.field import cli
from dpbai.field.cli import advice, answers, run, sheets, tables

SETTING = ("--budget", 300, "--epsilon", 1)
PLAIN = "arm,x,y\na,1,0\nb,0,1\nc,1,1\n"


def read(path, *options):
    given = cli.parser().parse_args(["plan", str(path), "--budget", "9", *options])
    return tables.read_arms(given)


# Tables of arms.

READ = {
    "semicolons": (b"arm;x;y\na;1;0\nb;0;1\nc;1;1\n", ()),
    "tabs": (b"arm\tx\ty\na\t1\t0\nb\t0\t1\nc\t1\t1\n", ()),
    "bars, spaces": (b"arm | x | y\na | 1 | 0\nb | 0 | 1\nc | 1 | 1\n", ()),
    "decimal commas": (b"arm;x;y\na;1,0;0,00\nb;0;1\nc;1,;1\n", ()),
    "a comma in quotes": (b'"arm";"x";"y"\n"a";1;0\n"b";0;1\n"c";1;1\n', ()),
    "UTF-16": (PLAIN.encode("utf-16"), ()),
    "UTF-8 with a mark": (PLAIN.encode("utf-8-sig"), ()),
    "capitals": (b"Arm,x,y\na,1,0\nb,0,1\nc,1,1\n", ()),
    "another name": (b"Variant,x,y\na,1,0\nb,0,1\nc,1,1\n", ("--arm-column", "variant")),
    "an id first": (b"id,arm,x,y\n7,a,1,0\n8,b,0,1\n9,c,1,1\n", ("--features", "x", "y")),
    "the index of pandas": (b",arm,x,y\n0,a,1,0\n1,b,0,1\n2,c,1,1\n", ("--features", "x", "y")),
    "the index, with tabs": (
        b"\tarm\tx\ty\n0\ta\t1\t0\n1\tb\t0\t1\n2\tc\t1\t1\n",
        ("--features", "x", "y"),
    ),
    "words beside": (b"arm,note,x,y\na,p,1,0\nb,q,0,1\nc,r,1,1\n", ("--features", "x", "y")),
    "a comma in a word": (
        b'arm,note,x,y\na,"1,5",1.0,0\nb,q,0,1\nc,r,1,1\n',
        ("--features", "x", "y"),
    ),
    "another order": (b"y,arm,x\n0,a,1\n1,b,0\n1,c,1\n", ("--features", "x", "y")),
    "truth": (b"arm,x,y\na,True,FALSE\nb,false,true\nc,1,TRUE\n", ()),
    "a stated separator": (b"sep=;\narm;x;y\na;1,0;0\nb;0;1\nc;1;1\n", ()),
    "a stated separator in quotes": (b'"SEP=,"\r\narm,x,y\r\na,1,0\r\nb,0,1\r\nc,1,1\r\n', ()),
    "empty columns": (b"arm,x,y,,\na,1,0,,\nb,0,1,,\nc,1,1,,\n", ()),
    "carriage returns": (b"arm,x,y\ra,1,0\rb,0,1\rc,1,1\r", ()),
    "points where semicolons separate": (b"arm;x;y\na;1.0;0\nb;0;1\nc;1;1\n", ()),
}


def test_features_that_are_all_zero_give_a_plan_with_a_note(call, tmp_path):
    (tmp_path / "arms.csv").write_text("arm,x,y\na,0,0\nb,0,0\nc,0,0\n")
    code, printed, _ = call("plan", tmp_path / "arms.csv", *SETTING)
    assert not code
    assert re.search(r"Phase 1 pulls: a (\d+), b \1, c \1\n", printed)
    assert "add a constant with --intercept" in " ".join(printed.split())
    assert "Model: none. The features are ignored.\n" in printed


@pytest.mark.parametrize(("data", "options"), READ.values(), ids=READ)
def test_a_table_is_read_as_the_plain_one(data, options, tmp_path, monkeypatch):
    """From a file and from standard input."""
    (tmp_path / "arms.csv").write_bytes(data)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="ascii"))
    for path in (tmp_path / "arms.csv", "-"):
        labels, features, columns, _ = read(path, *options)
        assert labels == ("a", "b", "c")
        assert features.tolist() == [[1, 0], [0, 1], [1, 1]]
        assert columns == ("x", "y")


ANSWERED = {
    "another name": (b"Variant;x\na;1\nb;2\n", "columns are Variant, x; choose", "--arm-column"),
    "words": (b"arm,hue,x\na,red,1\nb,blue,2\n", "hue of arm 'a' must be a number, got 'red'",
              "use --categorical hue for columns of words"),
    "words beside truth": (b"arm,hue,flag,x\na,red,True,1\nb,blue,NA,2\n", "hue of arm 'a' must be",
                           "use --categorical hue for columns of words"),
    "two in capitals": (b"ARM,Arm,x\na,b,1\nc,d,2\n", "column arm; the columns are ARM, Arm", ""),
    "a gap": (b"arm,x\na,1\nb,\n", "line 3: x of arm 'b' must be a number, but is missing",
              "leave out the line"),
    "NA": (b"\n\narm,x\na,NA\nb,1\n", "line 4: x of arm 'a'", "is missing"),
    "a decimal comma": (b'arm,x\na,"1,5"\nb,1\n', "x of arm 'a' must be a number, got '1,5'", ""),
    "a workbook": (b"PK\x03\x04\x00", "a workbook of a spreadsheet program", "as CSV (UTF-8)"),
    "an old workbook": (b"\xd0\xcf\x11\xe0\x00", "a workbook of a spreadsheet", "as CSV (UTF-8)"),
    "UTF-16 without a mark": (PLAIN.encode("utf-16-le"), "not text in UTF-8 or UTF-16", "save it"),
    "Latin-1": ("arm,x\ncaf\u00e9,1\nb,2\n".encode("latin-1"), "not text in UTF-8", "save it"),
    "an indicator's name": (b"arm,tone,tone=warm\na,warm,1\nb,cold,0\n",
                            "two features would have the name tone=warm", "rename the column"),
    "two columns without a name": (b"arm,,\na,1,2\nb,2,1\n", "must have distinct names; "
                                   "columns 2, 3 have no name", ""),
    "a thousand": (b"arm;x\na;999,5\nb;1.250\n", "line 3: x of arm 'b' has a point, got '1.250', "
                   "but a number in line 2 has a comma", "the same decimal sign for all numbers"),
    "another column's comma": (b"arm;x;y\na;1;0,5\nb;1.250;1\n", "line 3: x of arm 'b' has a "
                               "point", "no thousands separators"),
    "a percentage": (b"arm,x\na,30%\nb,1\n", "x of arm 'a' must be a number, got '30%': write it "
                     "with a decimal point", "thousands separators, %, currency sign or unit"),
    "a currency": (b"arm,x\na,$3\nb,1\n", "got '$3': write it", "without"),
    "a currency behind": ("arm,x\na,3 \u20ac\nb,1\n".encode(), "write it", "without"),
    "a unit": (b"arm,x\na,3 kg\nb,1\n", "got '3 kg': write it", "without"),
    "thousands": (b'arm,x\na,"1,250.5"\nb,1\n', "got '1,250.5': write it", "without"),
    "a carriage return": (b"arm,x\na,1\nb\rc,2\n", "a carriage return without a line feed", ""),
    "a carriage return in quotes": (b'arm,x\na,1\n"b\rc",2\n', "line 3: there is a carriage", ""),
    "two lines in a name": (b'arm,x\na,1\n"b\nc",2\n', "name of an arm must be one line", ""),
    "an escape in a name": (b"arm,x\na,1\n\x1b[2J,2\n", "line 3: the name of an arm must be one",
                            "replace all others with spaces"),
    "an escape in a column": (b"arm,x\x1b\na,1\nb,2\n", "names of columns must be one line", ""),
    "a strange separator": (b"sep=:\narm:x\na:1\nb:2\n", "separated by a comma, a semicolon", ""),
    "one arm twice": ("arm,x\ncaf\u00e9,1\ncafe\u0301,2\n".encode(), "is already in line 2", ""),
}  # fmt: skip


@pytest.mark.parametrize(("data", "found", "way"), ANSWERED.values(), ids=ANSWERED)
def test_a_table_that_cannot_be_read_gives_an_error_with_what_was_found_and_what_to_do(
    data, found, way, refused, tmp_path, monkeypatch
):
    (tmp_path / "arms.csv").write_bytes(data)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="latin-1"))
    categorical = ("--categorical", "tone") if b"tone" in data else ()
    for path in ("arms.csv", "-"):
        err = refused("plan", path, *SETTING, *categorical)
        assert found in err
        assert way in err
        assert err.startswith(f"dpbai: {path if path != '-' else 'standard input'}")


@pytest.mark.parametrize(
    ("words", "said"),
    [(("warm", "", "cold"), "seems to be missing: leave out the line, or use a word"),
     (("warm", "NA", "cold"), "line 3: category NA of tone seems to be missing"),
     (("warm", "Warm", "cold"), "Warm of tone differs from warm only in capitals or spaces"),
     (("red hot", "red  hot", "cold"), "write both in the same way"),
     (("warm", "a\x1bb", "cold"), "a category of tone must be one line")],
)  # fmt: skip
def test_missing_or_ambiguous_categories_are_refused(words, said, refused, tmp_path):
    rows = [f"{arm},{word},{x}" for arm, word, x in zip("abc", words, (1, 2, 4), strict=True)]
    (tmp_path / "arms.csv").write_text("\n".join(["arm,tone,x", *rows]))
    err = refused("plan", "arms.csv", *SETTING, "--categorical", "tone")
    assert said in err


def test_the_arm_column_can_also_be_categorical(tmp_path):
    (tmp_path / "arms.csv").write_text("arm,x\na,1\nb,2\nc,4\n")
    _, features, columns, _ = read(tmp_path / "arms.csv", "--categorical", "arm")
    assert columns == ("arm=a", "arm=b", "arm=c", "x")
    assert features[:, :3].tolist() == np.eye(3).tolist()


def test_the_word_none_can_be_a_category(tmp_path):
    (tmp_path / "arms.csv").write_text("arm,extra\na,none\nb,cream\n")
    assert read(tmp_path / "arms.csv", "--categorical", "extra").columns[1] == "extra=none"


def test_an_intercept_is_refused_if_a_column_has_its_name(refused, tmp_path):
    (tmp_path / "arms.csv").write_text("arm,constant\na,1\nb,3\n")
    assert "rename the column of this name" in refused(
        "start", "run.json", "arms.csv", *SETTING, "--intercept"
    )
    assert not (tmp_path / "run.json").exists()
    (tmp_path / "arms.csv").write_text("arm,constant,x\na,1,2\nb,1,3\n")
    assert read(tmp_path / "arms.csv", "--intercept").columns == ("constant", "x")


def test_closed_standard_input_gives_a_clear_error(refused, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    err = refused("plan", "-", *SETTING)
    assert "standard input is closed: pipe a table into it, or name a file" in err


def test_labels_with_a_carriage_return_are_read_back_as_they_were_written():
    written = io.StringIO(newline="")
    answers.write(["arm", "n"], [["a\rb", 1], ["c", None]], written)
    written.seek(0)
    assert list(csv.reader(written)) == [["arm", "n"], ["a\rb", "1"], ["c", ""]]


def test_an_unknown_column_gives_an_error_that_lists_the_columns(refused, tmp_path):
    (tmp_path / "arms.csv").write_text(PLAIN)
    for option in ("--features", "--categorical", "--arm-column"):
        err = refused("plan", "arms.csv", *SETTING, option, "hue")
        assert "there is no column hue; the columns are arm, x, y" in err
        assert option in err


def test_a_column_of_words_becomes_indicators_as_pandas_makes_them(tmp_path):
    frame = pd.DataFrame(
        {"arm": list("abcdef"), "hue": ["red", "blue", "red", "tan", "tan", "blue"],
         "x": [0.5, 1, 2, 3, 5, 8], "size": ["S", "L", "S", "L", "S", "L"]}
    )  # fmt: skip
    frame.to_csv(tmp_path / "arms.csv", index=False)
    _, features, columns, _ = read(tmp_path / "arms.csv", "--categorical", "hue", "size")
    expected = pd.get_dummies(frame, columns=["hue"], prefix_sep="=")
    assert columns == ("hue=blue", "hue=red", "hue=tan", "x", "size=S")
    assert features[:, :3].tolist() == expected[list(columns[:3])].to_numpy(float).tolist()
    assert np.linalg.matrix_rank(features) == features.shape[1]
    # The indicators of a column already add up to a constant.
    _, again, *_ = read(tmp_path / "arms.csv", "--categorical", "hue", "size", "--intercept")
    assert np.array_equal(again, features)


@settings(max_examples=40)
@given(data=st.data())
def test_an_intercept_adds_one_column_only_if_no_combination_is_constant(data, tmp_path_factory):
    arms = data.draw(st.integers(2, 6))
    rows = st.lists(st.integers(-3, 3), min_size=arms, max_size=arms)
    features = np.array(data.draw(st.lists(rows, min_size=1, max_size=3))).T
    folder = tmp_path_factory.mktemp("arms")
    frame = pd.DataFrame(features).add_prefix("x").rename_axis("arm")
    frame.to_csv(folder / "arms.csv")
    _, found, columns, _ = read(folder / "arms.csv", "--intercept")
    ones = np.linalg.lstsq(found, np.ones(arms), rcond=None)[0]
    assert found @ ones == pytest.approx(np.ones(arms))
    added = np.linalg.matrix_rank(np.c_[features, np.ones(arms)]) - np.linalg.matrix_rank(features)
    assert found.shape[1] == features.shape[1] + added
    assert (columns[0] == tables.CONSTANT) == bool(added)


# Advice.


def test_a_missing_constant_is_noted_and_matters(call, tmp_path):
    """Forty offers with mean 0.6 - 0.006 price + 0.008 discount; the constant is 0.6."""
    rng = np.random.default_rng(1)
    offers = pd.DataFrame({"price": rng.integers(10, 60, 40), "discount": rng.integers(0, 30, 40)})
    means = 0.6 - 0.006 * offers["price"] + 0.008 * offers["discount"]
    offers.rename_axis("arm").to_csv(tmp_path / "arms.csv")
    means.rename("mean").rename_axis("arm").to_csv(tmp_path / "means.csv")
    setting = ("--budget", 2000, "--epsilon", 1, "--misfit", 0)
    found = {}
    for more in ((), ("--intercept",)):
        _, out, _ = call("plan", "arms.csv", *setting, *more)
        assert ("no combination of the features is constant" in out) == (not more)
        assert ("add a constant with --intercept" in " ".join(out.split())) == (not more)
        arguments = ("--means", "means.csv", "--trials", 300, *more, "-o", "counts.csv")
        assert call("simulate", "arms.csv", *setting, *arguments)[0] == 0
        counts = pd.read_csv(tmp_path / "counts.csv")
        found[more] = counts.loc[counts["mean"].idxmax(), "recommended"] / 300
    assert found[()] < 0.05
    assert found["--intercept",] > 0.25
    code, out, _ = call("start", "run.json", "arms.csv", *setting)
    assert code == 0
    assert "add a constant with --intercept" in " ".join(out.split())
    others = call("plan", "arms.csv", *setting[:4], "--policy", "baseline")[1]
    assert "constant" not in others


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"x": [1, 2, 4, 8], "y": [1, 0, 0, 1], "z": [0, 1, 1, 0]}, []),
        ({"x": [1, 1, 0, 0], "y": [0, 0, 1, 1], "z": [2, 2, 1, 1]}, ["column z is a combin"]),
        ({"one": [1, 1, 1, 1], "x": [3, 1, 4, 1], "two": [2, 2, 2, 2], "y": [4, 2, 5, 2]},
         ["each of the columns two, y is a combination", "1 of the 4 arms cannot be the best"]),
        ({"one": [1, 1, 1, 1], "x": [3, 1, 4, 1], "f": [0, 0, 0, 0], "y": [1, 0, 0, 1]},
         ["column f is 0 for all arms, and adds no information: leave it out by"]),
        ({"one": [1, 1, 1, 1], "f": [0, 0, 0, 0], "x": [3, 1, 4, 1], "y": [5, 3, 6, 3]},
         ["column f is 0 for all arms", "column y is a combination", "cannot be the best"]),
        ({"f": [0, 0, 0, 0], "g": [0, 0, 0, 0]}, ["no combination of the features is constant",
         "each of the columns f, g is 0 for all arms, and adds no information: use --one-hot"]),
        ({"one": [1, 1, 1, 1], "id": [17, 3, 12, 5]}, ["column id is used as a feature",
         "2 of the 4 arms cannot be the best if means are linear in the features: c, d."]),
        ({"one": [1, 1, 1, 1], "Unnamed: 0": [0, 1, 2, 3]}, ["column Unnamed: 0 is used as",
                                                             "features: b, c."]),
        ({"one": [1, 1, 1, 1], "row": [1, 2, 3, 4]}, ["column row is used as a feature", "b, c"]),
        ({"one": [1, 1, 1, 1], "price": [17, 3, 12, 5]}, ["features: c, d."]),
        ({"w": [0, 0, 3, 0], "x": [1, 2, 4, 8], "y": [1, 0, 0, 1], "z": [0, 1, 1, 0]},
         ["the 4 arms have 4 independent features", "dp-bai equals baseline"]),
        ({"x": [1, 2, 4, 8]}, ["no combination of the features is constant", "features: a, b, c."]),
            ({"x": [-1, 0, 0, 1]}, ["no combination of the features is constant",
                                    "no arm can be ahead of all others"]),
    ],
)  # fmt: skip
def test_notes_name_problems_of_a_table_and_a_good_table_has_none(columns, said):
    features = np.array(list(columns.values()), dtype=float).T
    arms = tables.Arms(tuple("abcd"), features, tuple(columns), tuple(columns))
    notes = advice.notes(arms)
    if "dp-bai equals baseline" in said:
        notes += [notes[0]]
    assert len(notes) == len(said)
    for note, part in zip(notes, said, strict=True):
        assert part in note


def test_notes_on_indicators_name_only_columns_that_options_accept(tmp_path):
    """--features does not know the names of indicators; lists are distinguished from words."""
    (tmp_path / "arms.csv").write_text(
        "arm,day,week,scene,genres\na,mon,work,S1,Drama\nb,tue,work,S2,Adventure|Drama\n"
        "c,sat,end,S3,Adventure\nd,sun,end,S1,War\ne,sun,end,S2,War|Drama\n"
        "f,mon,work,S3,War|Adventure\ng,tue,work,S1,Drama|War\n"
    )

    def notes_of(*words):
        """Return the notes on indicators of these columns, with no other features."""
        chosen = ("--features", *words, "--categorical", *words)
        return advice.notes(read(tmp_path / "arms.csv", *chosen))

    notes = notes_of("day", "week")
    assert "column week=work is a combination of the columns before" in notes[0]
    assert "leave week out by naming the others with --features" in notes[0]
    notes = notes_of("week", "day")
    assert "column day=sun is a combination" in notes[0]
    assert "adds no information, but does no harm" in notes[0]
    (hint,) = (note for note in notes_of("genres") if "lists" in note)
    assert "column genres contains lists, such as Adventure|Drama" in hint
    assert "each of the 3 words" in hint
    assert "table['genres'].str.get_dummies('|')" in hint
    assert not any("lists" in note for note in notes_of("scene"))


def test_with_as_many_independent_features_as_arms_dp_bai_is_baseline():
    features = np.random.default_rng(3).normal(size=(6, 6))
    pair = [make(features, budget=600, epsilon=1) for make in (dpbai.DPBAI, dpbai.Baseline)]
    assert pair[0].schedule.sizes[:-1] == pair[1].schedule.sizes[:-1]
    for index, size in enumerate(pair[0].schedule.sizes[:-1], start=1):
        ours, theirs = (policy.phase(index, range(size)) for policy in pair)
        assert (ours.pulled, ours.pulls, ours.keep) == (theirs.pulled, theirs.pulls, theirs.keep)
        np.testing.assert_allclose(ours.decoder, theirs.decoder, atol=1e-12)


def test_a_table_of_names_only_needs_one_hot_unless_the_policy_reads_no_features(
    call, refused, tmp_path
):
    (tmp_path / "arms.csv").write_text("arm\nred\ngreen\nblue\n")
    (tmp_path / "more.csv").write_text("arm,price,shop\nred,1,x\ngreen,,\nblue,7,y\n")
    assert "use --one-hot, which gives each arm its own feature" in refused(
        "plan", "arms.csv", *SETTING
    )
    baseline = ("--policy", "baseline")
    expected = call("plan", "arms.csv", *SETTING, *baseline)
    assert expected[0] == 0
    for name in ("arms.csv", "more.csv"):
        assert call("plan", name, *SETTING, *baseline, "--one-hot") == expected
        assert read(tmp_path / name, "--one-hot").features.tolist() == np.eye(3).tolist()
        code, out, _ = call("start", f"{name}.json", name, *SETTING, "--one-hot")
        assert (code, "Note" in out) == (0, False)
    assert call("study", "arms.csv", "--policies", "baseline", "--budgets", 99, "--epsilons", 1,
                "--gap", 0.5, "--trials", 9)[0] == 0  # fmt: skip
    for more in (("--features", "price"), ("--categorical", "shop")):
        assert "cannot be combined with --features or --categorical" in refused(
            "plan", "more.csv", *SETTING, "--one-hot", *more
        )


# Rewards.


@pytest.fixture
def begun(done, tmp_path):
    """A run with ratings from 1 to 5."""
    (tmp_path / "arms.csv").write_text('arm,x,y\ncaf\u00e9,1,0\ngreen,0,1\n"re,d",1,1\n')
    start = ("start", "run.json", "arms.csv", "--budget", 100, "--epsilon", 8)
    done(*start, "--reward-range", 1, 5, "--misfit", "inf")
    return tmp_path


GOOD = {
    "extra columns": ("user,arm,at,reward\n7,green,9:00,4\n", ()),
    "semicolons, a decimal comma": ("arm;reward\ngreen;4,0\n", ()),
    "capitals": ("Arm,Reward\ngreen,4\n", ()),
    "other names": (
        "which,stars\ngreen,4\n",
        ("--arm-column", "which", "--reward-column", "stars"),
    ),
    "another accent": ("arm,reward\ncafe\u0301,4\n", ()),
    "sums": ("arm,total,count\ngreen,9,3\n", ()),
    "one of many": ("arm,count,reward,total\ngreen,9,3,1\n", ("--reward-column", "reward")),
    "truth": ("arm,reward\ngreen,True\n", ()),
}


@pytest.mark.parametrize(("text", "options"), GOOD.values(), ids=GOOD)
def test_rewards_are_read_by_the_names_of_their_columns(text, options, done, begun):
    (begun / "rewards.csv").write_text(text)
    out = done("tell", "run.json", "rewards.csv", *options)
    assert f"Recorded {'3 rewards' if 'total,count' in text else '1 reward'} of 1 arm." in out


REFUSED = {
    "no names": ("green,3.731\n\"re,d\",2\n", "its first line must contain the names"),
    "no names, words": ("a,half a point 731\nb,none\n", "its first line must contain"),
    "no names, a sign": ("a,\u22120.731\nb,\u22120.5\n", "its first line must contain"),
    "no names, twice": ("0.731,0.731\nb,1\n", "the columns must have distinct names"),
    "no names, an escape": ("a,0.731\x1b\nb,1\n", "its first line must contain"),
    "a percentage": ("arm,reward\ngreen,731%\n", "write it with a decimal point"),
    "a point and a comma": ("arm;reward\ngreen;2,731\ngreen;2.731\n", "has a point, but a number"),
    "no names, truth": ("green,True\ngreen,False\n", "its first line must contain the names"),
    "other names": ("which,stars\ngreen,3.731\n", "choose one with --arm-column"),
    "below the range": ("arm,reward\ngreen,0.731\n", "line 2: reward must lie in [1, 5]"),
    "above the range": ("arm,reward\ngreen,5.731\n", "line 2: reward must lie in [1, 5]"),
    "sums": ("arm,total,count\ngreen,15.731,3\n", "total must lie in [1, 5] times count"),
    "no reward": ("arm,total,count\ngreen,0.731,0\n", "count must be a whole number, at least 1"),
    "both": ("arm,reward,total,count\ngreen,1.731,2,3\n", "with --reward-column"),
    "a near name": ("arm,reward\nGren,3.731\n", "not one of the arms; did you mean green?"),
    "no near name": ("arm,reward\nxyz,3.731\n", "not one of the arms\n"),
    "columns exchanged": ("arm,reward\n3.731,green\n", "not one of the arms\n"),
    "a gap": ("arm,reward\ngreen,\n", "is missing: leave out the line"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_refused_rewards_give_an_error_with_a_remedy_that_quotes_none(text, said, refused, begun):
    before = (begun / "run.json").read_bytes()
    (begun / "rewards.csv").write_text(text)
    err = refused("tell", "run.json", "rewards.csv")
    assert said in err
    assert "731" not in err
    assert "True" not in err
    assert (begun / "run.json").read_bytes() == before


def test_batches_mistakes_and_drop_outs_from_start_to_report(call, done, refused, begun):
    """A batch recorded twice, a wrong entry, a phase with missing rewards; estimates in stars."""
    asked = requests_of(call("next", "run.json")[1])
    rows = [(arm, 5 if arm == "green" else 1) for arm, n in asked.items() for _ in range(n - 2)]
    pd.DataFrame(rows, columns=["arm", "reward"]).to_csv(begun / "monday.csv", index=False)
    tell = ("tell", "run.json", "monday.csv", "--batch", "monday")
    assert call(*tell)[0] == 0
    assert "'monday' was recorded already, in phase 1" in refused(*tell)
    (begun / "wrong.csv").write_text("arm,reward\ngreen,1\n")
    assert call("tell", "run.json", "wrong.csv", "--batch", "wrong")[0] == 0
    assert "Batches so far: monday, wrong" in call("status", "run.json")[1]
    code, out, _ = call("undo", "run.json", "wrong")
    assert (code, "Removed batch wrong: green 1\n" in out) == (0, True)
    assert "Batches so far: monday\n" in call("status", "run.json")[1]
    assert "no batch of this name; the batches are: 'monday'\n" in refused(
        "undo", "run.json", "wrong"
    )
    out = done("end-phase", "run.json")
    assert f"{len(rows)} of {sum(asked.values())} rewards" in out
    while asked := requests_of(call("next", "run.json")[1]):
        rows = [(arm, 5 * n if arm == "green" else n, n) for arm, n in asked.items()]
        frame = pd.DataFrame(rows, columns=["arm", "total", "count"])
        frame.to_csv(begun / "rest.csv", index=False)
        assert call("tell", "run.json", "rest.csv")[0] == 0
    assert call("end-phase", "run.json")[0] == 2
    out = done("recommend", "run.json", "-o", "report.csv")
    assert "rewards lie in [1, 5]" in " ".join(out.split())
    assert "phase 1 was ended with" in out
    report = pd.read_csv(begun / "report.csv").set_index("arm")
    session = dpbai.Session.resume(begun / "run.json")
    # Six deviations of the noise of a Laplace law: a false alarm of 2e-4 squared by two arms apart.
    assert report.loc["green", "estimate"] == pytest.approx(
        5, abs=10 * report.loc["green", "noise"]
    )
    assert report.index[0] == session.recommendation
    code, out, _ = call("recommend", "run.json", "--json")
    printed = json.loads(out)
    assert printed["recommended"] == session.recommendation
    assert printed["epsilon"] == session.certificate.epsilon
    assert printed["reward_range"] == [1, 5]
    assert {row["arm"]: row["estimate"] for row in printed["estimates"]} == session.estimates


def test_assumed_means_are_on_the_scale_of_the_rewards(call, done, refused, tmp_path):
    """Stars from 1 to 5 are 1 + 4 m: the same runs, with means, gaps and losses in stars."""
    (tmp_path / "arms.csv").write_text(PLAIN.replace("arm", "Leaflet"))
    means = np.array([0.2, 0.5, 0.75])
    for name, column in (("unit", means), ("stars", 1 + 4 * means)):
        frame = pd.DataFrame({"Leaflet": list("abc"), "mean": column})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    found = {}
    for name, width, scale in (("unit", 1, ()), ("stars", 4, ("--reward-range", 1, 5))):
        common = ("arms.csv", "--arm-column", "Leaflet", "--within", 0.25 * width, *scale)
        tables_of, printed = [], []
        for command in (
            ("simulate", *SETTING, "--means", f"{name}.csv"),
            ("study", "--budgets", 60, "--epsilons", 1, "--means", f"{name}.csv"),
            ("budget", "--epsilons", 1, "--gap", 0.2 * width, "--policies", "dp-bai"),
        ):
            call_of = (command[0], *common, *command[1:], "--trials", 200, "-o", "out.csv")
            out = done(*call_of)
            printed.append(out)
            tables_of.append(pd.read_csv(tmp_path / "out.csv"))
        printed.append(call("plan", *common, *SETTING, "--gap", 0.2 * width, "--trials", 200)[1])
        found[name] = tables_of, [" ".join(out.split()) for out in printed]
    (unit, said), (stars, shown) = found.values()
    assert stars[0]["mean"].tolist() == pytest.approx((1 + 4 * means).tolist())
    assert stars[0]["recommended"].tolist() == unit[0]["recommended"].tolist()
    for number, column in ((1, "regret"), (2, "loss")):
        assert unit[number][column].max() > 0
        assert stars[number][column].tolist() == pytest.approx(4 * unit[number][column])
        same = [name for name in unit[number] if name != column]
        pd.testing.assert_frame_equal(stars[number][same], unit[number][same])
    chances = [re.findall(r"with probability (\S+)", text[3]) for text in (said, shown)]
    assert chances[0] == chances[1] != []
    assert "with rewards of 1 or 5" in shown[3]
    losses = [float(re.search(r"is then (\S+) below", text[3])[1]) for text in (said, shown)]
    assert losses[1] == pytest.approx(4 * losses[0], rel=0.01)
    levels = [float(re.search(r"--gap: \S+ (\S+),", text[3])[1]) for text in (said, shown)]
    assert levels[1] == pytest.approx(1 + 4 * levels[0], rel=0.01)
    (tmp_path / "stars.csv").write_text("arm,mean\na,1\nb,5\nc,5.5\n")
    assert "'c' must lie in [1, 5] for bernoulli rewards, got 5.5" in refused(
        "simulate", *common, *SETTING, "--means", "stars.csv"
    )


def test_json_contains_all_that_status_and_next_print(call, begun):
    (begun / "rewards.csv").write_text("arm,reward\ngreen,4\n")
    call("tell", "run.json", "rewards.csv", "--batch", "first")
    asked = json.loads(call("next", "run.json", "--json")[1])
    assert {row["arm"]: row["pulls"] for row in asked} == requests_of(call("next", "run.json")[1])
    printed = json.loads(call("status", "run.json", "--json", "-o", "status.csv")[1])
    assert (printed["phase"], printed["batches"]) == (
        1, {"first": {"phase": 1, "counts": {"green": 1}}},
    )  # fmt: skip
    assert printed["missing"] == sum(row["pulls"] for row in asked)
    table = pd.read_csv(begun / "status.csv")
    assert [row["arm"] for row in printed["arms"]] == list(table["arm"])


def test_follow_answers_each_line_of_json(call, done, begun, monkeypatch):
    asked = requests_of(call("next", "run.json")[1])
    total = sum(asked.values())
    arms = [arm for arm, n in asked.items() for _ in range(n)]
    lines = [
        '{"arm": "green", "reward": 3, "batch": 1}', '{"arm": "green", "reward": 3, "batch": 1}',
        '{"arm": "green", "reward": 5.731}', '{"arm": "gren", "reward": 3}', "5.731", "{", "",
        '{"arm": "green", "reward": 3, "rewards": 5.731}', '{"arm": "green"}',
        '{"arm": "green", "reward": 3, "reward": 3.731}',
        '{"arm": "green", "reward": 3, "batch": ""}',
    ]  # fmt: skip
    arms.remove("green")
    lines += [json.dumps({"arm": arm, "reward": 1}) for arm in arms]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))
    out = done("tell", "run.json", "-", "--follow")
    answers = [json.loads(line) for line in out.splitlines()]
    assert len(answers) == len(lines)  # a client waits for each
    assert answers[0] == {"missing": total - 1}
    assert all("error" in answer for answer in answers[1:11])
    assert "did you mean green?" in answers[3]["error"]
    assert "arm, reward and optionally batch, each once" in answers[9]["error"]
    assert "731" not in out
    assert [answer["missing"] for answer in answers[11:-1]] == list(range(total - 2, 0, -1))
    session = dpbai.Session.resume(begun / "run.json")
    assert answers[-1]["released"] == 1
    assert answers[-1]["survivors"] == list(session.released[0].survivors)
    for wrong in (("rewards.csv", "--follow"), ("-", "--follow", "--batch", "b")):
        assert call("tell", "run.json", *wrong)[0] == 2


def test_integer_labels_from_python_can_be_used_on_the_command_line(done, tmp_path):
    policy = dpbai.DPBAI(np.eye(3), budget=40, epsilon=1.0)
    session = dpbai.Session(policy, path=tmp_path / "run.json")
    rows = [(arm, 0.5) for arm, n in session.requests.items() for _ in range(n)]
    pd.DataFrame(rows, columns=["arm", "reward"]).to_csv(tmp_path / "rewards.csv", index=False)
    done("tell", "run.json", "rewards.csv")
    after = dpbai.Session.resume(tmp_path / "run.json")
    assert len(after.released) == 1
    assert after.labels == (0, 1, 2)


# The table of estimates.


def many(tmp_path, arms=200):
    """A table of many arms with long and awkward names, and the session of a finished run."""
    rng = np.random.default_rng(0)
    labels = [f"$x^{{{i}}}_a$, {'very ' * 9}long & 5% \\frac" for i in range(arms)]
    frame = pd.DataFrame(rng.random((arms, 3)), index=pd.Index(labels, name="arm"))
    frame.insert(0, "one", 1.0)
    frame.add_prefix("x").to_csv(tmp_path / "arms.csv")
    return labels


def test_two_hundred_arms_with_long_names_fit_on_a_page(call, done, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "_LIMIT", 20)  # of the plans whose ranges are printed
    many(tmp_path)
    outputs = []
    setting = ("--budget", 3000, "--epsilon", 1)
    for arguments in (
        ("plan", "arms.csv", *setting),
        ("start", "run.json", "arms.csv", *setting),
        ("status", "run.json"),
    ):
        out = done(*arguments)
        outputs.append(out)
    finish(tmp_path / "run.json")
    outputs.append(call("recommend", "run.json", "-o", "report.csv")[1])
    for out in outputs:
        assert len(out.splitlines()) < 60
        assert max(map(len, out.splitlines()[1:])) <= 80
    assert "... and 170 more rows" in outputs[-1]
    assert len(pd.read_csv(tmp_path / "report.csv")) == 200


def test_an_eliminated_arm_is_not_listed_above_the_recommended_one(call, tmp_path):
    """Rewards of phase 1 are higher than later ones: arms are listed by the phase they reached."""
    many(tmp_path, 20)
    setting = ("--budget", 3000, "--epsilon", 5, "--policy", "dp-bai")
    call("start", "run.json", "arms.csv", *setting)
    session = dpbai.Session.resume(tmp_path / "run.json")
    while session.requests:
        level = 0.9 if not session.released else 0.1
        session.record({arm: [level] * n for arm, n in session.requests.items()})
    # Arms that are in play are listed first, also in a table that is cut.
    call("status", "run.json", "-o", "status.csv")
    states = pd.read_csv(tmp_path / "status.csv")["state"].tolist()
    assert states[0] == "recommended"
    out = call("recommend", "run.json", "-o", "report.csv")[1]
    report = pd.read_csv(tmp_path / "report.csv")
    assert report["estimate"].max() > report["estimate"][0]
    assert report["arm"][0] == session.recommendation
    assert list(report["state"]) == ["recommended"] + [
        f"out in phase {phase}" for phase in report["phase"][1:]
    ]
    assert report["phase"].is_monotonic_decreasing
    assert "Compare estimates of the same phase only" in out
    deviations = [session.deviations[arm] for arm in report["arm"]]
    assert list(report["noise"]) == pytest.approx(deviations)


def test_figures_are_reproducible_files_and_show_labels_literally(call, done, refused, tmp_path):
    labels = many(tmp_path, 12)
    means = np.linspace(0.2, 0.8, 12)
    frame = pd.DataFrame({"arm": labels, "mean": means})
    frame.to_csv(tmp_path / "means.csv", index=False)
    call("start", "run.json", "arms.csv", "--budget", 3000, "--epsilon", 1)
    finish(tmp_path / "run.json")
    study = ("study", "arms.csv", "--means", "means.csv", "--budgets", 300, "--epsilons", 1,
             "--trials", 20)  # fmt: skip
    simulate = ("simulate", "arms.csv", "--means", "means.csv", *SETTING, "--trials", 20)
    for command in (("recommend", "run.json"), study, simulate):
        drawn = set()
        for name in ("one.svg", "two.svg"):
            done(*command, "--figure", name)
            drawn.add((tmp_path / name).read_bytes())
        assert len(drawn) == 1
    assert "must end in" in refused("recommend", "run.json", "--figure", "run.gif")


def test_help_is_readable_at_80_columns(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    commands = re.findall(r"^    ([a-z-]+)\b", call("--help")[1].partition("from two")[0], re.M)
    assert len(commands) == 16
    for arguments in ([], *([command] for command in commands)):
        out = call(*arguments, "--help")[1]
        assert max(map(len, out.splitlines())) <= 80
        assert not re.search(r"\bdp-$", out, re.M)


@pytest.mark.parametrize(
    ("name", "quoted"),
    [("a", "a"), ("a, b", '"a, b"'), ('a "b"', r'"a \"b\""'), ("a\nb", "a b"),
     ("a\x1b[1mb", "a\\x1b[1mb"),
     ("x" * 40, "x" * 27 + "..."), (7, "7"), ("", '""'), ("a;b", '"a;b"')],
)  # fmt: skip
def test_names_in_a_list_can_be_distinguished(name, quoted):
    assert sheets.quoted(name) == quoted


def test_a_count_of_one_is_singular(done, refused, tmp_path):
    """All rewards of one arm are 1, all others 0. Noise reverses this with odds of e^-60."""
    assert [sheets.plural(n, "reward") for n in (0, 1, 2)] == ["0 rewards", "1 reward", "2 rewards"]
    (tmp_path / "arms.csv").write_text("arm\na\nb\nc\nd\n")
    (tmp_path / "last.csv").write_text("arm,reward\na,1\n")
    done("start", "run.json", "arms.csv", "--policy", "baseline", "--budget", 60, "--epsilon", 9)
    for phase, stay in ((1, "2 of 4 arms remain: "), (2, "1 of 2 arms remains: ")):
        asked = requests_of(done("next", "run.json"))
        rows = [f"{arm},{(n - 1) * (arm == 'a')},{n - (arm == 'a')}\n" for arm, n in asked.items()]
        (tmp_path / "most.csv").write_text("".join(["arm,total,count\n", *rows]))
        arms = "4 arms" if phase == 1 else "2 arms"
        assert f"{sum(asked.values()) - 1} rewards of {arms}.\n" in done(
            "tell", "run.json", "most.csv"
        )
        assert f"1 reward of phase {phase} is missing. `dpbai" in refused("recommend", "run.json")
        out = done("tell", "run.json", "last.csv")
        assert "Recorded 1 reward of 1 arm.\n" in out
        assert f"Phase {phase} is complete and released. {stay}" in out


def test_a_table_of_one_row_too_many_says_one_more_row(capsys):
    answers.show(["n"], [[n] for n in range(answers._MOST_ROWS + 1)])
    assert "... and 1 more row: --output" in capsys.readouterr().out


@given(st.lists(st.text("abc", min_size=1, max_size=40), min_size=1, max_size=40))
def test_a_list_is_one_line_and_counts_the_entries_that_it_omits(names):
    printed = sheets.listed(map(sheets.quoted, names))
    kept, _, more = printed.partition(" and ")
    assert len(kept) <= max(sheets._WIDTH, len(sheets.quoted(names[0])))
    assert len(kept.split(", ")) + int(more.split()[0] if more else 0) == len(names)


def test_the_version_and_infinite_numbers_are_printed(call, tmp_path):
    assert call("--version") == (0, f"dpbai {dpbai.__version__}\n", "")
    (tmp_path / "arms.csv").write_text(PLAIN)
    call("start", "run.json", "arms.csv", "--budget", 60, "--policy", "od-linbai")
    finish(tmp_path / "run.json")
    printed = json.loads(call("recommend", "run.json", "--json")[1])
    assert printed["epsilon"] == "inf"


def test_json_contains_only_valid_json_numbers(capsys):
    """Any JSON parser accepts them; Python's float("inf") reads the text back."""
    answers.show_json({"a": (math.inf, -math.inf), "b": [{"c": math.nan}], "d": np.float64(0.5)})
    out = capsys.readouterr().out
    assert json.loads(out, parse_constant=None) == {
        "a": ["inf", "-inf"], "b": [{"c": None}], "d": 0.5,
    }  # fmt: skip
    assert "NaN" not in out
    assert "Infinity" not in out
