"""Online CP/PARAFAC factorization of streams of sparse tensors, exact or of counts.

>>> import tensornoodl as tn
>>> planted = tn.Planted(features=40, patterns=5, rows=30, cols=30, alpha=0.2, beta=0.2)
>>> model = tn.TensorNOODL().fit(planted.tensor(t) for t in range(1, 6))
>>> tn.match(model.components_, planted.patterns).error < 1e-10
True
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ._core import Codes, Events, Match, NoPattern, Planted, Tensor, __version__
from ._estimator import Excess, Group, Repeat, Rung, Stability, Surprise, TensorNOODL, load
from ._inputs import NotFittedError, from_events, from_fibers, match

if TYPE_CHECKING:
    from ._noodl import NOODL

__all__ = [
    "Codes",
    "Events",
    "Excess",
    "Group",
    "Match",
    "NoPattern",
    "NotFittedError",
    "Planted",
    "Repeat",
    "Rung",
    "Stability",
    "Surprise",
    "Tensor",
    "TensorNOODL",
    "__version__",
    "from_events",
    "from_fibers",
    "load",
    "match",
]
if find_spec("sklearn") is not None:
    __all__ += ["NOODL"]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # NOODL is imported on demand: only this class needs scikit-learn, which takes a second to import.
        if name == "NOODL":
            from ._noodl import NOODL

            return NOODL
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
