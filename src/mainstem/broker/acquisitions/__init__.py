"""Acquisitions, as adapters use them."""

from mainstem.broker.acquisitions.acquisitions import Acquire, Acquisitions
from mainstem.coordination.acquisitions.acquisition import Acquisition, Condition, Reading, Ruled, Source, Stretch

__all__ = ["Acquire", "Acquisition", "Acquisitions", "Condition", "Reading", "Ruled", "Source", "Stretch"]
