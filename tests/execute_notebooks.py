"""Execute the notebooks: `python -m tests.execute_notebooks` writes those in notebooks/ anew, with what their cells give now.

Notebooks are kept with their outputs, so that they can be read where nothing can be run, and in one form: no metadata but the
name of the language and the tags of cells, cells numbered from the top. Cells with the tag `varies` give other numbers on other
machines, as times do.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
SECONDS = 600  # for the start of a kernel, and for one cell


class ThisInterpreter(KernelSpecManager):
    """Kernels of the interpreter that runs now, whatever others are installed."""

    def get_kernel_spec(self, kernel_name):
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=command, display_name="Python 3", language="python")


def executed(path):
    """Return a notebook with the outputs that its cells give in a fresh kernel, in the folder of the notebook."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as settings:
        environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
        environment |= {"PYTHONPATH": str(ROOT), "IPYTHONDIR": settings, "JUPYTER_CONFIG_DIR": settings}
        manager = AsyncKernelManager(kernel_spec_manager=ThisInterpreter())
        client = NotebookClient(notebook, km=manager, timeout=SECONDS, startup_timeout=SECONDS, coalesce_streams=True)
        client.execute(cwd=path.parent, env=environment, cleanup_kc=True)
    return in_form(notebook)


def in_form(notebook):
    """Return the notebook in the form in which it is kept."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(notebook.cells, 1):
        cell.id = f"cell-{number}"
        cell.metadata = nbformat.from_dict({"tags": cell.metadata.tags} if cell.metadata.get("tags") else {})
        for output in cell.get("outputs", ()):
            if "metadata" in output:
                output.metadata = nbformat.from_dict({})
    nbformat.validate(notebook)
    return notebook


def printed(cell):
    """Return what a cell prints and gives, as text; pictures stand there by their type alone."""
    texts = []
    for output in cell.outputs:
        if output.output_type == "stream":
            texts.append(output.text)
        elif "image/png" in output.data:
            texts.append("image/png")
        else:
            texts.append(output.data["text/plain"])
    return "\n".join(texts)


if __name__ == "__main__":
    for notebook_path in NOTEBOOKS:
        nbformat.write(executed(notebook_path), notebook_path)
        print(f"wrote {notebook_path.relative_to(ROOT)}")
