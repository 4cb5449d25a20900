#!/usr/bin/env python3
"""Writes the files of this folder with Python's safetensors (made with 0.8.0), and what is in them as expected.json:

  DIR/bin/python tests/testdata/safetensors/write_testdata.py        DIR: of tests/checkpoint/install.sh
"""
import json
import pathlib

import numpy
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).resolve().parent
NAMES = {"float32": "F32", "float16": "F16", "float64": "F64", "int64": "I64", "uint8": "U8", "bool": "BOOL", "int32": "I32"}


def content(tensors, metadata):
    return {"metadata": metadata or {},
            "tensors": {name: [NAMES[array.dtype.name], list(array.shape), array.tobytes().hex()] for name, array in tensors.items()}}


files = {
    "types.safetensors": ({"w": numpy.arange(6, dtype=numpy.float32).reshape(2, 3), "half": numpy.ones(3, dtype=numpy.float16),
                           "d": numpy.array([1.5]), "i": numpy.array([[-1], [2]], dtype=numpy.int64),
                           "bytes": numpy.arange(5, dtype=numpy.uint8), "flags": numpy.array([True, False, True])},
                          {"format": "np", "é": "ü\"\\"}),
    "scalar_and_empty.safetensors": ({"scalar": numpy.array(7, dtype=numpy.int32), "empty": numpy.zeros((0, 4), dtype=numpy.float32)}, None),
    "no_tensor.safetensors": ({}, {"only": "metadata"}),
}
expected = {}
for name, (tensors, metadata) in files.items():
    save_file(tensors, HERE / name, metadata)
    expected[name] = content(tensors, metadata)
(HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
