"""Fixtures that several tests share."""

from __future__ import annotations

import signal

import pytest

import tensornoodl as tn

# Tests interrupt the learning with SIGINT. A shell that starts them in the background ignores this signal, and Python then has no
# handler of its own.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def planted() -> tn.Planted:
    return tn.Planted(features=40, patterns=6, rows=30, cols=25, alpha=0.15, beta=0.15)


@pytest.fixture(scope="session")
def fitted(planted: tn.Planted) -> tn.TensorNOODL:
    """A fitted model. Tests must copy it before they change it."""
    return tn.TensorNOODL().fit(planted.tensor(t) for t in range(1, 6))
