"""Backends that only have words, so that golden prompts change with our prompts and with nothing else."""


class Plain:
    """The declaration and the rules a prompt quotes."""

    def entry(self, task):
        names = [t.name for t in (*task.signature.inputs, *task.signature.outputs)]
        return f"// as the harness calls it (once per size)\nvoid kernel({', '.join('float* ' + name for name in names)});"


class Traced:
    """One whose kernels are Python."""

    file = "kernel.py"

    def entry(self, task):
        names = [t.name for t in task.signature.inputs]
        return f"def kernel({', '.join(names)}):\n    ...\n    return {', '.join(t.name for t in task.signature.outputs)}"
