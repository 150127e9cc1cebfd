"""What commands say of their run: links, bars with the time left, lines elsewhere, completion."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import halfseen as hs
from halfseen.cli import run
from halfseen.cli.models import complete_model
from halfseen.cli.terminal import Report
from halfseen.model.shipped import shipped
from tests.builders import make_model


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What rich takes for a terminal of 80 columns."""
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_a_written_file_is_a_link_on_a_terminal(
    terminal: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a file.png"
    Report().wrote(path, "(split val)")
    said = capsys.readouterr().err
    assert f";{path.as_uri()}\x1b\\" in said
    assert "(split val)" in said


def test_elsewhere_a_written_file_is_plain_and_on_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / ("[bold]" + "long" * 30 + ".png")
    Report().wrote(path)
    Report(quiet=True).wrote(path)
    assert capsys.readouterr().err == f"wrote {path}\n"


def test_a_bar_tells_the_time_left(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    report = Report()
    with report.progress("looking", 4) as advance:
        advance(2)
        report.say("[red]a line[/red]")
    said = capsys.readouterr().err
    for part in ("looking", "left", "[red]a line[/red]"):
        assert part in said
    assert report._progress is None


def test_steps_have_bars_on_a_terminal_and_lines_elsewhere(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(report: Report) -> str:
        with report.steps() as tell:
            for what in ("first", "second"):
                for done in range(3):
                    tell(what, done, 2)
        return capsys.readouterr().err

    assert work(Report()) == "first\nsecond\n"
    assert work(Report(quiet=True)) == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "second" in work(Report())


def test_each_command_that_compiles_says_that_it_is_for_the_first_use(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One that needs more kernels compiles again: nothing promises that it happens once."""
    import numba

    for number in range(2):
        with Report().compiling():
            numba.njit(lambda x, n=number: x + n)(1)
            numba.njit(lambda x, n=number: x - n)(1)
        said = capsys.readouterr().err
        assert said == "compiling what is used for the first time; it is kept\n"


def test_the_shell_completes_commands_options_and_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "models").mkdir()
    for name in ("car.safetensors", "cat.safetensors", "car.png"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    files = ["car.safetensors", "cat.safetensors"]
    classes = list(shipped())
    named = [name for name in classes if name.startswith("ca")]
    assert {"car", "cat"} <= set(named)
    assert complete_model("ca") == [*named, *files]
    assert complete_model("") == [*classes, "all", *files, "models/"]
    variants = ["car", "car.net", "car.fhog", "car.fast"]
    assert complete_model("car") == [*variants, "car.safetensors"]
    assert complete_model("car.f") == variants[2:]
    assert complete_model("all") == ["all", "all.net", "all.fhog", "all.fast"]
    assert complete_model(f"{tmp_path}/car") == [f"{tmp_path}/car.safetensors"]
    assert complete_model("nowhere/x") == []
    monkeypatch.setenv("_HALFSEEN_COMPLETE", "complete_bash")
    for words, expected in {
        "halfseen de": {"demo", "detect"},
        "halfseen detect ca": {*named, *files},
        "halfseen detect --thr": {"--threshold"},
    }.items():
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        with pytest.raises(SystemExit):
            run([])
        assert set(capsys.readouterr().out.split()) == expected


@pytest.mark.parametrize(
    ("shell", "expected"),
    [
        ("zsh", "#compdef halfseen"),
        ("fish", "complete --command halfseen"),
        ("bash", "complete -o"),
    ],
)
def test_completion_is_that_of_the_shell_that_is_named(
    shell: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["--show-completion", shell]) == 0
    assert expected in capsys.readouterr().out
    assert run(["--install-completion", shell]) == 0
    assert str(tmp_path) in capsys.readouterr().out
    assert any(expected in file.read_text() for file in tmp_path.rglob("*") if file.is_file())


def test_completion_of_an_unknown_shell_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--show-completion", "tcsh"]) == 2
    assert "expected bash, zsh, fish" in capsys.readouterr().err


def test_counts_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["scenes", str(tmp_path / "s"), "--count", "1", "--width", "96", "--height", "96"]
    assert run([*words, "--json", "-q"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert json.loads(said.out)["scenes"] == 1
    results = tmp_path / "results.json"
    results.write_text('[{"image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 9], "score": 0.5}]')
    assert run(["suppress", str(results), "-o", str(tmp_path / "k.json"), "--json", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["kept"] == 1


def test_results_cannot_command_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    label = "\x1b]0;owned\x07\x1b[2Jcar"
    annotation = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [5, 5, 30, 20], "iscrowd": 0}
    (tmp_path / "truth.json").write_text(
        json.dumps(
            {
                "images": [{"id": 1, "file_name": "a.jpg", "width": 80, "height": 60}],
                "annotations": [annotation | {"area": 600}],
                "categories": [{"id": 1, "name": label}],
            }
        )
    )
    model = tmp_path / "model.safetensors"
    hs.save(replace(make_model(), label=label), model)
    for words in (
        ["convert", str(tmp_path / "truth.json"), str(tmp_path / "out.json"), "--to", "coco"],
        ["models", str(model)],
        ["detect", str(model), str(tmp_path / "\x1b[2J.jpg")],
        ["suppress", str(tmp_path / "truth.json"), "-o", str(tmp_path / "k.json")],
        ["evaluate", str(model), str(tmp_path / "truth.json")],
    ):
        run(words)
        said = capsys.readouterr()
        for text in (said.out, said.err):
            assert all(c.isprintable() or c == "\n" for c in text), words
