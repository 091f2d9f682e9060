"""Sources that include one header of cuda/math and use it, of the sections of header_users.cpp.in."""

from __future__ import annotations

import re
from pathlib import Path

TEXT = Path(__file__).with_name("header_users.cpp.in").read_text()
USERS = dict(re.findall(r"^//// (\S+)\n(.*?)(?=^////|\Z)", TEXT, re.DOTALL | re.MULTILINE))
CPU_ONLY = frozenset({"simd.h"})  # vectors of the processor


def source(header: str, function: str = "", entry: str = "") -> str:
    """A source that includes one header, and uses it with float and with double.

    Args:
        header: its path below math.
        function, entry: attributes of the template, and of the function that the compiler must generate.
    """
    check = '#include "math/raster/policy_check.h"\n' if "check_gpu_policy" in USERS[header] else ""
    return (
        f'#include "math/{header}"\n{check}namespace luxel {{\n'
        f"template <typename T> {function} void use(T* p) {{\n{USERS[header]}\n}}\n"
        f'}}\nextern "C" {entry} void run(float* a, double* b) {{\n  luxel::use(a);\n  luxel::use(b);\n}}\n'
    )
