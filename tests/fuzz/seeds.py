"""Seeds for the fuzzers: the smallest of the ONNX node tests, and some models with bodies, functions and external data.

    seeds.py FOLDER
"""

import contextlib
import io
import pathlib
import sys
import warnings

from onnx import TensorProto, helper


def node_tests(most: int = 2000) -> list[bytes]:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        models = [test.model.SerializeToString() for test in collect_testcases(None)]
    return sorted({model for model in models if len(model) < most}, key=len)[::3]


def vector(name: str):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"])


def with_function() -> bytes:
    body = helper.make_function(
        "local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 18)]
    )
    nodes = [helper.make_node("Twice", ["x"], ["y"], domain="local")]
    graph = helper.make_graph(nodes, "g", [vector("x")], [vector("y")])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, functions=[body], opset_imports=opsets, ir_version=8).SerializeToString()


def with_external_data() -> bytes:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "model.onnx"), ("offset", "0"), ("length", "16")):
        tensor.external_data.add(key=key, value=value)
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [vector("x")], [vector("y")], [tensor])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8).SerializeToString()


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for index, model in enumerate([with_function(), with_external_data(), *node_tests()]):
        (folder / f"seed{index:04}").write_bytes(model)


if __name__ == "__main__":
    main()
