"""The ONNX node tests through Portwright: load, save, check, simplify, and every engine here.

    make conformance                              all of them; prints the matrix and what did not pass
    .venv/bin/python tests/conformance/node_tests.py --only 'test_resize*' --engine onnxruntime

The cases, with their inputs and expected outputs, come from the installed onnx package. What each column says:

    lossless   simplify with every pass left out gives an equal model
    check      `portwright check` finds no error: every one of these models is valid
    simplify   the simplified model gives what the original gives (on ONNX Runtime), or, where ONNX Runtime cannot run the
               original, is a valid model still
    ENGINE     the engine's outputs are the expected ones, within the tolerances that the test itself states

Answers of an engine: passed, mismatch, unsupported, crashed, timed_out, and not_run for types that no .npz holds.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import fnmatch
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

import ml_dtypes
import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
PORTWRIGHT = os.environ.get("PORTWRIGHT_BINARY", str(ROOT / "build" / "portwright"))
ENGINES = ("onnxruntime", "openvino")

# Why ONNX Runtime gives other numbers than the test expects. A mismatch that is not listed here is a finding.
EXPLAINED = {
    "test_attention_4d_with_past_and_present_qk_matmul_bias_*_mask_causal": (
        "masked scores in the optional qk output are the lowest float32 where the test has -inf; the result itself agrees"
    ),
    "test_attention_4d_causal_fp16": "one of 192 elements is one step of float16 away",
    "test_dft*": "elements that are exactly 0 come out at 1e-4 beside others of up to 945: float32 rounding, and the test allows 1e-7",
    "test_stft*": "elements that are exactly 0 come out at 1e-5 beside others of up to 1912: float32 rounding, and the test allows 1e-7",
    "test_training_dropout*": "training mode draws at random: the test expects NumPy's generator",
    "test_maxunpool_export_with_output_shape": "indices are counted in the given output shape, where the test counts them in the one before padding",
    "test_resize_downsample_scales_*_align_corners": (
        "align_corners with the rounded output size, where the standard takes size times scale without rounding"
    ),
}
PASSED = "passed"


@dataclasses.dataclass
class Case:
    name: str
    operators: list[str]
    model: onnx.ModelProto
    inputs: dict[str, np.ndarray] | None  # None: a type that no .npz holds
    expected: dict[str, np.ndarray] | None
    rtol: float
    atol: float


@dataclasses.dataclass
class Outcome:
    case: Case
    answers: dict[str, str] = dataclasses.field(default_factory=dict)
    reasons: dict[str, str] = dataclasses.field(default_factory=dict)

    def note(self, column: str, answer: str, reason: str = "") -> None:
        self.answers[column] = answer
        if reason:
            self.reasons[column] = reason


def arrays(infos, values) -> dict[str, np.ndarray] | None:
    """By name; None when one of them is a sequence, a string or a type that NumPy does not know itself."""
    out = {}
    for info, value in zip(infos, values):
        if isinstance(value, onnx.TensorProto):
            value = onnx.numpy_helper.to_array(value)
        if not isinstance(value, (np.ndarray, np.generic)):
            return None
        array = np.asarray(value)
        known = array.dtype.kind in "biufc" or array.dtype.name == "bfloat16"
        if not known or array.dtype.name.startswith(("int4", "uint4", "int2", "uint2", "float8", "float4", "float6")):
            return None
        out[info.name] = array
    return out


def load_cases(pattern: str) -> list[Case]:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        found = collect_testcases(None)
    cases = []
    for test in found:
        if not fnmatch.fnmatch(test.name, pattern):
            continue
        inputs, outputs = test.data_sets[0]
        graph = test.model.graph
        cases.append(
            Case(
                test.name,
                sorted({node.op_type for node in graph.node}),
                test.model,
                arrays(graph.input, inputs),
                arrays(graph.output, outputs),
                test.rtol,
                test.atol,
            )
        )
    return cases


def unheld_type(graph: onnx.GraphProto) -> str:
    """The first type of an input or output that is not a tensor of NumPy's own numbers."""
    numbers = {"FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "BOOL", "COMPLEX64", "COMPLEX128"}
    for info in [*graph.input, *graph.output]:
        kind = info.type.WhichOneof("value")
        if kind != "tensor_type":
            return "a " + kind.removesuffix("_type")
        name = onnx.TensorProto.DataType.Name(info.type.tensor_type.elem_type)
        if name not in numbers and name.removeprefix("U") not in ("INT8", "INT16", "INT32", "INT64"):
            return f"a tensor of {name}"
    return "an absent optional"


def portwright(*arguments, timeout: float = 120) -> tuple[int, dict]:
    """The exit code and the JSON document; 124 after a time-out."""
    try:
        done = subprocess.run(
            [PORTWRIGHT, *map(str, arguments), "--json"], capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return 124, {}
    try:
        return done.returncode, json.loads(done.stdout)
    except json.JSONDecodeError:
        return done.returncode, {"message": (done.stderr or done.stdout).strip()[-300:]}


def readable(array: np.ndarray) -> np.ndarray:
    """NumPy reads bfloat16 back as two untyped bytes."""
    return array.view(ml_dtypes.bfloat16) if array.dtype.kind == "V" else array


def message_of(document: dict) -> str:
    error = document.get("error", document)
    return " ".join(str(error.get("message", "no message")).split())


def run(model: pathlib.Path, engine: str, folder: pathlib.Path) -> tuple[str, str, dict[str, np.ndarray]]:
    """(answer, reason, outputs): the answer is empty when it ran."""
    output = folder / f"{model.stem}.{engine}.npz"
    command = ("run", model, "--inputs", folder / "inputs.npz", "-o", output, "--target", f"{engine}:fp32", "--timeout", "60", "--threads", "1")
    code, document = portwright(*command)
    if code == 0:
        with np.load(output) as archive:
            return "", "", {name: readable(archive[name]) for name in archive.files}
    kind = document.get("error", {}).get("verdict") or document.get("error", {}).get("code", "")
    answers = {"crashed": "crashed", "timed_out": "timed_out", "out_of_memory": "out_of_memory"}
    answer = "timed_out" if code == 124 else answers.get(kind, "unsupported" if code in (1, 2, 3, 4) else "crashed")
    return answer, message_of(document), {}


def difference(actual: dict, expected: dict, rtol: float, atol: float) -> str:
    """Empty when all outputs are as expected."""
    for name, wanted in expected.items():
        if name not in actual:
            return f"output '{name}' is missing"
        got = actual[name]
        if got.dtype != wanted.dtype:
            return f"'{name}' is {got.dtype}, not {wanted.dtype}"
        if got.shape != wanted.shape:
            return f"'{name}' is {list(got.shape)}, not {list(wanted.shape)}"
        with np.errstate(all="ignore"):
            if got.dtype.name == "bfloat16":
                got, wanted = got.astype(np.float32), wanted.astype(np.float32)
            if not np.allclose(got, wanted, rtol=rtol, atol=atol, equal_nan=True):
                apart = np.abs(np.asarray(got, dtype=np.float64) - np.asarray(wanted, dtype=np.float64))
                return f"'{name}' differs by {np.nanmax(apart):.3g}"
    return ""


def judge(model: pathlib.Path, engine: str, folder: pathlib.Path, case: Case) -> tuple[str, str, dict]:
    answer, reason, outputs = run(model, engine, folder)
    if answer:
        return answer, reason, {}
    reason = difference(outputs, case.expected, case.rtol, case.atol)
    return ("mismatch" if reason else PASSED), reason, outputs


def is_random(case: Case) -> bool:
    drawing = {"RandomNormalLike", "RandomUniformLike", "RandomNormal", "RandomUniform", "Bernoulli", "Multinomial"}
    return bool(drawing & set(case.operators))


def examine_model(outcome: Outcome, model: pathlib.Path, folder: pathlib.Path) -> pathlib.Path | None:
    code, document = portwright("check", model)
    errors = [f for f in document.get("findings", []) if f["severity"] == "error"]
    reason = errors[0]["message"] if errors else message_of(document) if code else ""
    outcome.note("check", PASSED if code == 0 else "failed", reason)

    code, document = portwright("simplify", model, "-o", folder / "same.onnx", "--no-proof", "--without", "all")
    same = code == 0 and onnx.load(folder / "same.onnx") == outcome.case.model
    outcome.note("lossless", PASSED if same else "failed", "" if same else message_of(document) if code else "another model")

    code, document = portwright("simplify", model, "-o", folder / "small.onnx", "--no-proof")
    if code != 0:
        outcome.note("simplify", "failed", message_of(document))
        return None
    return folder / "small.onnx"


def examine_simplified(outcome: Outcome, small: pathlib.Path, original: dict, folder: pathlib.Path) -> None:
    case = outcome.case
    if outcome.answers["onnxruntime"] not in (PASSED, "mismatch"):
        code, document = portwright("check", small)
        valid = code == 0 or outcome.answers["check"] != PASSED
        outcome.note("simplify", PASSED if valid else "failed", "" if valid else "the result is not valid")
        return
    answer, reason, outputs = run(small, "onnxruntime", folder)
    if not answer and not is_random(case):
        reason = difference(outputs, original, 1e-6, 1e-6)
    outcome.note("simplify", "failed" if answer or reason else PASSED, reason)


def examine(case: Case, engines: list[str]) -> Outcome:
    outcome = Outcome(case)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        model = folder / "model.onnx"
        onnx.save(case.model, str(model))
        small = examine_model(outcome, model, folder)
        if case.inputs is None or case.expected is None:
            for engine in engines:
                outcome.note(engine, "not_run", f"{unheld_type(case.model.graph)}, which no .npz holds")
            if small:
                outcome.answers["onnxruntime"] = "not_run"
                examine_simplified(outcome, small, {}, folder)
            return outcome
        np.savez(folder / "inputs.npz", **case.inputs)
        original: dict = {}
        for engine in dict.fromkeys(["onnxruntime", *engines]):
            answer, reason, outputs = judge(model, engine, folder, case)
            outcome.note(engine, answer, reason)
            original = outputs if engine == "onnxruntime" else original
        if small:
            examine_simplified(outcome, small, original, folder)
    return outcome


def print_matrix(outcomes: list[Outcome], columns: list[str]) -> None:
    rows: dict[str, list[Outcome]] = collections.defaultdict(list)
    for outcome in outcomes:
        rows[outcome.case.name.removeprefix("test_") and main_operator(outcome.case)].append(outcome)
    print(f"{'operator':34}{'cases':>6}  " + "  ".join(f"{column:28}" for column in columns))
    for operator in sorted(rows):
        cells = [summary(rows[operator], column) for column in columns]
        print(f"{operator:34}{len(rows[operator]):6}  " + "  ".join(f"{cell:28}" for cell in cells))
    print(f"{'all':34}{len(outcomes):6}  " + "  ".join(f"{summary(outcomes, column):28}" for column in columns))


def main_operator(case: Case) -> str:
    """The operator that a test is about; tests of an expanded function body count for the function."""
    squeezed = case.name.removeprefix("test_").replace("_", "")
    names = sorted({schema.name for schema in onnx.defs.get_all_schemas_with_history()}, key=len, reverse=True)
    for name in names:
        if squeezed.startswith(name.lower()):
            return name
    return case.operators[0] if case.operators else "?"


def summary(outcomes: list[Outcome], column: str) -> str:
    counts = collections.Counter(outcome.answers.get(column, "-") for outcome in outcomes)
    if set(counts) == {PASSED}:
        return "all"
    return " ".join(f"{counts[answer]} {answer}" for answer in sorted(counts, key=lambda a: a != PASSED))


def print_reasons(outcomes: list[Outcome], columns: list[str]) -> None:
    for column in columns:
        bad = [outcome for outcome in outcomes if outcome.answers.get(column, PASSED) != PASSED]
        if not bad:
            continue
        print(f"\n{column}: {len(bad)} not passed")
        for outcome in bad:
            reason = outcome.reasons.get(column, "")
            print(f"  {outcome.answers[column]:12} {outcome.case.name}: {reason[:220]}")
            if column == "onnxruntime" and outcome.answers[column] != "not_run" and outcome.answers[column] != "unsupported":
                print(f"{'':15}{explanation(outcome) or 'NOT EXPLAINED'}")


def explanation(outcome: Outcome) -> str:
    return next((text for names, text in EXPLAINED.items() if fnmatch.fnmatch(outcome.case.name, names)), "")


def is_finding(outcome: Outcome) -> bool:
    """Portwright itself is at fault, or ONNX Runtime gives a result that nothing explains."""
    own = any(outcome.answers.get(column, PASSED) != PASSED for column in ("lossless", "check", "simplify"))
    answer = outcome.answers.get("onnxruntime", PASSED)
    return own or (answer not in (PASSED, "not_run", "unsupported") and not explanation(outcome))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", metavar="PATTERN", help="names of tests, with * and ?")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take only one of N cases")
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--record", type=pathlib.Path, help="write every answer as JSON")
    options = parser.parse_args()
    engines = options.engine or list(ENGINES)
    cases = load_cases(options.only)[:: options.every]
    if not cases:
        parser.error(f"no node test is called {options.only}")
    started = time.monotonic()
    outcomes: list[Outcome] = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for outcome in pool.map(lambda case: examine(case, engines), cases):
            outcomes.append(outcome)
            if sys.stderr.isatty() or len(outcomes) % 100 == 0:
                end = "\r" if sys.stderr.isatty() else "\n"
                print(f"{len(outcomes)} of {len(cases)} node tests", end=end, file=sys.stderr, flush=True)
    columns = ["lossless", "check", "simplify", *engines]
    print_matrix(outcomes, columns)
    print_reasons(outcomes, columns)
    print(f"\n{len(outcomes)} node tests of onnx {onnx.__version__} in {time.monotonic() - started:.0f} s")
    if options.record:
        rows = [{"case": o.case.name, "answers": o.answers, "reasons": o.reasons} for o in outcomes]
        options.record.write_text(json.dumps(rows, indent=1))
    found = [outcome.case.name for outcome in outcomes if is_finding(outcome)]
    print(f"findings: {', '.join(found) or 'none'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
