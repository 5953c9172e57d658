"""A fake operator package: the project compiled by the twin's own build, and the two functions by which a package's operator is called."""

import json
import os
import shutil
import subprocess
import sys

os.environ["EVOKERNEL_WITHOUT"] = "limits,privileges,namespaces,landlock,seccomp"  # a build runs in a jail already

import fake

if (fake.HOME / "cache.txt").exists():
    os.environ["EVOKERNEL_CACHE"] = (fake.HOME / "cache.txt").read_text()

KINDS = {"int": "int64_t", "float": "double", "bool": "bool"}
DTYPES = {"float": "float32", "half": "float16", "bf16": "bfloat16", "float16": "float16", "bfloat16": "bfloat16"}


def make(here, output):
    """Leaves in `output` what the installer installs; errors are shown as a compiler shows them."""
    from evokernel.backends.ascendc.build import build
    from evokernel.backends.ascendc.chips import chip
    from evokernel.backends.ascendc.project import read
    from evokernel.core.errors import CandidateError

    told = json.loads((here / "operator.json").read_text())
    description = told[0] if isinstance(told, list) else told
    files = {str(path.relative_to(here)): path.read_text() for path in sorted(here.glob("op_*/**/*")) if path.suffix in (".cpp", ".h")}
    building = here / "twin"
    building.mkdir()
    try:
        project = read(files, signature(description))
        build(project, building)
    except CandidateError as error:
        sys.exit(f"{project.kernel if 'project' in locals() else 'op_kernel'}:1:1: error: {error.detail}")
    (building / "interface.cpp").write_text(interface(description, chip("910B2").as_lines()))
    places = [f"-I{fake.HERE / 'native'}", "-L.", f"-L{fake.HOME / 'lib64'}"]
    linked = ["-Wl,--no-as-needed", "-l:libtwin.so", "-l:operator.so", "-lascendcl", "-Wl,-rpath,$ORIGIN", "-ldl"]
    command = ["g++", "-std=c++17", "-shared", "-fPIC", *places, "interface.cpp", "-o", "libcust_opapi.so", *linked]
    subprocess.run(command, cwd=building, check=True)
    for name in ("libcust_opapi.so", "operator.so", "libtwin.so"):
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
    """The package's two functions."""
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
        f"static const bool known = (twin_level(2), twin_configure({json.dumps(chip)}), true);",
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
