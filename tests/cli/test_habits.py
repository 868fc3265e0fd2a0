"""Habits that all verbs share: help, wrong usage, colours, --json, completion, signals, pipes."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess

import pytest
from conftest import BINARY, VERBS, wait_for

ESCAPE = "\033["


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb_has_two_examples(portwright, verb):
    done = portwright(verb, "--help").passes()
    assert done.out.count(f"portwright {verb}") >= 2 + 1  # usage and two examples
    examples = done.out.split("Examples:")[1]
    assert len([line for line in examples.splitlines() if "portwright" in line]) >= 2
    assert done.err == ""


def test_examples_in_help_use_options_that_exist(portwright):
    for verb in VERBS:
        text = portwright(verb, "--help").out
        known = set(re.findall(r"--[a-z-]+", re.split("[Oo]ptions:", text, maxsplit=1)[1].split("Examples:")[0]))
        used = set(re.findall(r"--[a-z-]+", text.split("Examples:")[1]))
        assert used <= known, (verb, used - known)


def test_help_of_the_program_lists_the_verbs_and_hides_the_worker(portwright):
    done = portwright("--help").passes()
    for verb in VERBS:
        assert re.search(rf"^  {verb} ", done.out, re.MULTILINE), verb
    assert "engine-worker" not in done.out


def test_version(portwright):
    assert re.fullmatch(r"portwright \d+\.\d+\.\d+\n", portwright("--version").passes().out)


def test_no_verb(portwright):
    portwright().fails(2, "no verb")


def test_unknown_verb_gets_the_nearest_one(portwright):
    portwright("inspet", "m.onnx").fails(2, "unknown verb 'inspet'", "did you mean 'inspect'?")


def test_unknown_verb_that_is_like_none(portwright):
    portwright("quxquxqux").fails(2, "unknown verb", "port, export, inspect")


def test_unknown_option_gets_the_nearest_one(portwright):
    portwright("compare", "a.npz", "b.npz", "--rtoll", "1").fails(2, "--rtoll", "did you mean '--rtol'?")


def test_unknown_option_is_told_before_what_it_makes_missing(portwright):
    portwright("port", "torchvision:resnet18", "--targett=onnxruntime:fp32", "-o", "out").fails(2, "--targett", "'--target'")


def test_missing_argument(portwright):
    portwright("inspect").fails(2, "MODEL", "portwright inspect --help")


def test_missing_value(portwright):
    portwright("compare", "a.npz", "b.npz", "--rtol").fails(2, "--rtol")


@pytest.mark.parametrize("value", ["abc", "-1", "nan"])
def test_bad_number(portwright, value):
    portwright("compare", "a.npz", "b.npz", f"--rtol={value}").fails(2, "--rtol")


def test_one_argument_too_many(portwright):
    portwright("inspect", "a.onnx", "b.onnx").fails(2, "b.onnx")


def test_word_outside_the_choice(portwright):
    portwright("report", "out", "--format", "pdf").fails(2, "--format", "pdf")


@pytest.mark.parametrize("target", ["nosuch:fp32", "onnxruntime:fp31", "onnxruntime:fp32@", "onnxruntime:fp32:fp16"])
def test_bad_target(portwright, model, target):
    portwright("validate", model, "--target", target).fails(2, target)


def test_target_given_twice(portwright):
    portwright("port", "a.py:f", "-t", "onnxruntime:fp32", "-t", "onnxruntime:fp32", "-o", "o").fails(2, "onnxruntime:fp32", "twice")


@pytest.mark.parametrize("text", ["x", "x:axb", "x:1x3:float33:whatever(", ":1"])
def test_bad_input_option(portwright, text):
    portwright("export", "a.py:f", "--input", text, "-o", "o").fails(2)


@pytest.mark.parametrize("text", ["x", "x.0", "x.0=b:8..1", "x.a=b", "x.0=b:1..9..2"])
def test_bad_dynamic_option(portwright, text):
    portwright("export", "a.py:f", "--dynamic", text, "-o", "o").fails(2)


@pytest.mark.parametrize("size", ["8X", "lots", "-1G", "0"])
def test_bad_memory_size(portwright, model, size):
    portwright("validate", model, "-t", "onnxruntime:fp32", f"--memory={size}").fails(2, "--memory")


def test_errors_are_documents_with_json(portwright, validator):
    done = portwright("inspect", "nowhere.onnx", "--json").fails(4, "nowhere.onnx")
    validator("error", done.json)
    assert done.json["exit_code"] == 4
    assert done.json["error"]["code"] == "no_such_file"


def test_wrong_usage_is_a_document_with_json(portwright, validator):
    done = portwright("compare", "--json", "--nonsense").fails(2)
    validator("error", done.json)


def test_quiet_prints_nothing(portwright, model):
    done = portwright("inspect", model, "-q").passes()
    assert done.out == "" and done.err == ""


def in_terminal(arguments, env):
    """The program with a pseudo-terminal as its standard output."""
    parent, child = pty.openpty()
    process = subprocess.Popen([BINARY, *map(str, arguments)], stdout=child, stderr=subprocess.PIPE, env=env, stdin=subprocess.DEVNULL)
    os.close(child)
    text = b""
    try:
        while chunk := os.read(parent, 65536):
            text += chunk
    except OSError:  # the other end was closed
        pass
    os.close(parent)
    process.communicate()
    return text.decode()


def environment(**more):
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "CLICOLOR_FORCE")}
    return {**env, "TERM": "xterm", **more}


def test_colours_in_a_terminal_only(portwright, model):
    assert ESCAPE in in_terminal(["inspect", model], environment())
    assert ESCAPE not in portwright("inspect", model).passes().out


def test_no_color(model):
    assert ESCAPE not in in_terminal(["inspect", model], environment(NO_COLOR="1"))


def test_dumb_terminal(model):
    assert ESCAPE not in in_terminal(["inspect", model], environment(TERM="dumb"))


def test_forced_colour(portwright, model):
    assert ESCAPE in portwright("inspect", model, env={"CLICOLOR_FORCE": "1"}).passes().out


def test_json_has_no_colour_even_when_forced(portwright, model):
    done = portwright("inspect", model, "--json", env={"CLICOLOR_FORCE": "1"}).passes()
    assert ESCAPE not in done.out
    assert done.json["schema"] == "portwright/inspect/1"


def test_a_closed_pipe_is_harmless(model):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([BINARY, "inspect", str(model)], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_behind_standard_output_is_told(model):
    with open("/dev/full", "w") as full:
        done = subprocess.run([BINARY, "inspect", str(model)], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3
    assert "standard output" in done.stderr


@pytest.fixture
def slow_export(tmp_path):
    """A factory that never returns, so that there is something to interrupt."""
    (tmp_path / "slow.py").write_text("import time\ndef make():\n    open('started', 'w').close()\n    time.sleep(300)\n")

    def send(sent, *more):
        process = subprocess.Popen(
            [BINARY, "export", "slow.py:make", "-o", "out", *more],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        wait_for(tmp_path / "started", process)
        process.send_signal(sent)
        out, err = process.communicate(timeout=30)
        return process.returncode, out, err

    return send


def test_interruption_is_told_and_has_its_exit_code(slow_export):
    code, _, err = slow_export(signal.SIGINT)
    assert code == 128 + signal.SIGINT
    assert "portwright: interrupted" in err


def test_a_crash_is_told_as_an_error_is(slow_export, validator):
    code, out, err = slow_export(signal.SIGSEGV, "--json")
    assert code == 70
    assert "portwright: error: a defect of Portwright" in err and "hint: " in err
    document = json.loads(out)
    validator("error", document)
    assert document["exit_code"] == 70 and document["error"]["code"] == "crash"


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_completion_in_bash(portwright, tmp_path):
    script = tmp_path / "completion.bash"
    script.write_text(portwright("completion", "bash").passes().out)

    def complete(*words):
        code = f"""source {script}; COMP_WORDS=({' '.join(words)}); [ "{words[-1]}" = "''" ] && COMP_WORDS[{len(words) - 1}]=''
                   COMP_CWORD={len(words) - 1}; _portwright; printf '%s\\n' "${{COMPREPLY[@]}}" """
        done = subprocess.run(["bash", "-c", code], capture_output=True, text=True)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        return done.stdout.split()

    assert set(VERBS) <= set(complete("portwright", "''"))
    assert complete("portwright", "insp") == ["inspect"]
    assert complete("portwright", "compare", "--rt") == ["--rtol"]
    assert complete("portwright", "report", "--format", "''") == ["html", "md", "json", "junit"]
    assert "openvino:bf16" in complete("portwright", "port", "--target", "open")


@pytest.mark.parametrize("shell, check", [("zsh", ["zsh", "-n"]), ("fish", ["fish", "-n"])])
def test_completion_in_other_shells(portwright, tmp_path, shell, check):
    text = portwright("completion", shell).passes().out
    assert "compare" in text and "rtol" in text and "engine-worker" not in text
    if shutil.which(shell):
        script = tmp_path / "script"
        script.write_text(text)
        assert subprocess.run([*check, str(script)], capture_output=True).returncode == 0
