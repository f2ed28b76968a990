"""minititans: a memory that keeps learning while it reads.

from minititans import NeuralMemory, MemoryState, Gates
"""

from importlib import import_module, metadata

try:
    __version__ = metadata.version("minititans")  # pyproject.toml has it
except metadata.PackageNotFoundError:  # run from a folder that pip has not installed
    __version__ = "(not installed)"

# Name -> module. Imported when first used, so that `minititans doctor` can say what is missing
# even where torch is.
_PUBLIC = {
    "Gates": "minititans.memory",
    "MemoryState": "minititans.memory",
    "NeuralMemory": "minititans.memory",
    "TitansConfig": "minititans.config",
    "TitansLM": "minititans.model",
    "Trace": "minititans.memory",
}
__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str):
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'minititans' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
