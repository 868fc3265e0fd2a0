"""Folders that cannot be written, are full, or are in use; and what a run folder is told as."""

import fcntl
import json
import os
import shutil
import subprocess
import xml.etree.ElementTree as xml

import pytest
from conftest import ROOT


@pytest.fixture
def mounted(tmp_path):
    """mounted(options) gives a small file system of its own; needs root."""
    mounts = []

    def mount(options, name="small"):
        folder = tmp_path / name
        folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"cannot mount a file system here: {done.stderr.strip()}")
        mounts.append(folder)
        return folder

    yield mount
    for folder in mounts:
        subprocess.run(["umount", "-l", str(folder)])


def read_only(tmp_path, mounted):
    if os.geteuid() == 0:  # root is not held back by permissions
        return mounted("size=1m,ro")
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o555)
    return folder


def test_read_only_folder(portwright, model, inputs, tmp_path, mounted):
    folder = read_only(tmp_path, mounted)
    portwright("compile", model, "-t", "onnxruntime:fp32", "-o", folder / "engine").fails(3, str(folder))
    portwright("run", model, "-i", inputs, "-o", folder / "out.npz").fails(3, str(folder))
    portwright("port", model, "-t", "onnxruntime:fp32", "-o", folder / "out").fails(3, str(folder))


def test_full_folder(portwright, model, inputs, mounted):
    folder = mounted("size=64k")
    subprocess.run(["dd", "if=/dev/zero", f"of={folder}/ballast", "bs=1k"], capture_output=True)
    portwright("run", model, "-i", inputs, "-o", folder / "out.npz").fails(3, str(folder), "full")
    assert sorted(os.listdir(folder)) == ["ballast"]  # nothing half written is left behind


def test_output_below_a_file(portwright, model, tmp_path):
    (tmp_path / "file").write_text("")
    portwright("compile", model, "-t", "onnxruntime:fp32", "-o", "file/engine").fails(3, "file/engine")


def test_a_folder_with_other_things_is_left_alone(portwright, model, tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "thesis.txt").write_text("precious")
    portwright("port", model, "-t", "onnxruntime:fp32", "-o", folder).fails(2, "home", "not empty")
    assert (folder / "thesis.txt").read_text() == "precious"


def test_two_runs_into_one_folder(portwright, model, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        portwright("port", model, "-t", "onnxruntime:fp32", "-o", folder, "--force").fails(2, "out", "another portwright")


@pytest.fixture
def run_folder(tmp_path):
    shutil.copytree(ROOT / "tests/report/run", tmp_path / "run")
    return tmp_path / "run"


def test_report_formats(portwright, run_folder):
    page = portwright("report", run_folder, "--format", "html").passes().out
    assert page.startswith("<!doctype html>") and "torchvision:resnet18" in page
    assert portwright("report", run_folder).passes().out.startswith("# torchvision:resnet18: mismatch")
    suites = xml.fromstring(portwright("report", run_folder, "-f", "junit").passes().out)
    assert int(suites.get("failures")) == 2
    assert portwright("report", run_folder, "-f", "json").passes().json == json.loads((run_folder / "port.json").read_text())


def test_report_into_a_file(portwright, run_folder, tmp_path):
    done = portwright("report", run_folder, "-f", "junit", "-o", "port.xml").passes()
    assert done.out == ""
    xml.parse(tmp_path / "port.xml")


def test_report_of_a_folder_without_a_record(portwright, tmp_path):
    portwright("report", tmp_path).fails(4, "port.json")


def test_report_of_a_broken_record(portwright, run_folder):
    (run_folder / "port.json").write_text('{"verdict": ')
    portwright("report", run_folder).fails(4, "port.json")


@pytest.mark.parametrize("value", ["[]", "null", '"text"', '{"targets": 3, "steps": {"a": 1}}', "{}"])
def test_report_of_a_record_with_nothing_in_it(portwright, run_folder, value):
    (run_folder / "port.json").write_text(value)
    for form in ("html", "md", "junit", "json"):
        portwright("report", run_folder, "-f", form).passes()


def test_port_of_an_onnx_file(portwright, model, tmp_path, validator):
    """The whole way, on a model without PyTorch."""
    done = portwright("port", model, "-t", "onnxruntime:fp32", "-t", "openvino:fp32", "--dynamic", "x.0=batch:1..4..9",
                      "--bench-seconds", "1", "--junit", "port.xml", "-o", "out", "--json", timeout=300).passes()
    validator("port", done.json)
    assert done.json == json.loads((tmp_path / "out/port.json").read_text())
    for line in (tmp_path / "out/issues.jsonl").read_text().splitlines():
        validator("issue", json.loads(line))
    for target in done.json["targets"]:
        validator("validate", target["validate"])
    for file in (tmp_path / "out/engines").glob("*/engine.json"):
        validator("engine", json.loads(file.read_text()))
    assert xml.parse(tmp_path / "port.xml").getroot().get("failures") == "0"
    portwright("report", "out", "-f", "html", "-o", "again.html").passes()
    assert (tmp_path / "again.html").read_text() == (tmp_path / "out/report.html").read_text()
    portwright("port", model, "-t", "onnxruntime:fp32", "-o", "out").fails(2, "earlier run", "--resume")
