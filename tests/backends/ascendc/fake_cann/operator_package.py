"""A fake operator package: the project compiled with the simulator, and the two aclnn functions of a package."""

import json
import os
import shutil
import subprocess
import sys

os.environ["EVOKERNEL_SANDBOX_DISABLE"] = "limits,privileges,namespaces,landlock,seccomp"  # a build already runs in a sandbox

import fake

if (fake.HOME / "cache.txt").exists():
    os.environ["EVOKERNEL_CACHE"] = (fake.HOME / "cache.txt").read_text()

KINDS = {"int": "int64_t", "float": "double", "bool": "bool"}
DTYPES = {"float": "float32", "half": "float16", "bf16": "bfloat16", "float16": "float16", "bfloat16": "bfloat16"}


def make(here, output):
    """Write the files of the installer to `output`; errors are printed in the format of a compiler."""
    from evokernel.backends.ascendc.build import build
    from evokernel.backends.ascendc.chips import find_chip
    from evokernel.backends.ascendc.project_parser import parse_project
    from evokernel.core.errors import CandidateError

    told = json.loads((here / "operator.json").read_text())
    description = told[0] if isinstance(told, list) else told
    files = {str(path.relative_to(here)): path.read_text() for path in sorted(here.glob("op_*/**/*")) if path.suffix in (".cpp", ".h")}
    building = here / "simulator"
    building.mkdir()
    try:
        project = parse_project(files, signature(description))
        build(project, building)
    except CandidateError as error:
        sys.exit(f"{project.kernel_file if 'project' in locals() else 'op_kernel'}:1:1: error: {error.detail}")
    (building / "interface.cpp").write_text(interface(description, find_chip("910B2").runtime_config_text()))
    places = [f"-I{fake.HERE / 'native'}", "-L.", f"-L{fake.HOME / 'lib64'}"]
    linked = ["-Wl,--no-as-needed", "-l:libsimulator.so", "-l:operator.so", "-lascendcl", "-Wl,-rpath,$ORIGIN", "-ldl"]
    command = ["g++", "-std=c++17", "-shared", "-fPIC", *places, "interface.cpp", "-o", "libcust_opapi.so", *linked]
    subprocess.run(command, cwd=building, check=True)
    for name in ("libcust_opapi.so", "operator.so", "libsimulator.so"):
        shutil.copy(building / name, output / name)


def signature(description):
    """The operator's description as a signature: shapes do not matter for building."""
    from evokernel.core.records import ScalarArgument, Signature, Tensor

    def tensors(kind):
        found = description.get(kind) or []
        return tuple(Tensor(name=one["name"], dtype=DTYPES.get(one["type"][0], one["type"][0]), shape=(1,)) for one in found)

    scalars = tuple(ScalarArgument(name=one["name"], kind=one["type"], value=0) for one in description.get("attr") or [])
    return Signature(inputs=tensors("input_desc"), scalars=scalars, outputs=tensors("output_desc"))


def interface(description, chip):
    """C++ source of the package's two functions."""
    op = description["op"]
    inputs = [one["name"] for one in description.get("input_desc") or []]
    outputs = [one["name"] for one in description.get("output_desc") or []]
    attributes = [(KINDS[one["type"]], one["name"]) for one in description.get("attr") or []]
    parameters = [*(f"const aclTensor* {name}" for name in inputs), *(f"{kind} {name}" for kind, name in attributes)]
    parameters += [*(f"const aclTensor* {name}" for name in outputs), "uint64_t* size", "void** executor"]
    listed = {
        "inputs": ", ".join(f"tensor({name})" for name in inputs),
        "attributes": ", ".join(f"scalar({name})" for _, name in attributes),
        "outputs": ", ".join(f"tensor({name})" for name in outputs),
    }
    lines = [
        '#include "operator.h"',
        f"static const bool known = (simulator_level(2), simulator_configure({json.dumps(chip)}), true);",
        f'extern "C" int aclnn{op}GetWorkspaceSize({", ".join(parameters)}) {{',
        "  Prepared* prepared = new Prepared();",
        *(f"  prepared->{kind} = {{{words}}};" for kind, words in listed.items()),
        "  *size = 128;",
        "  *executor = prepared;",
        "  return known ? 0 : 161001;",
        "}",
        f'extern "C" int aclnn{op}(void*, uint64_t size, void* executor, aclrtStream) {{ return launch("{op}", executor, size); }}',
        "",
    ]
    return "\n".join(lines)
