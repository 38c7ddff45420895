"""The GPU reader of a host whose GPUs are not read."""

from __future__ import annotations

from datetime import datetime

from tidegate.model.reading import GpuFault, GpuSurvey


class NoGpuReader:
    """Says that the GPUs are not read, and why."""

    def read(self, now: datetime) -> GpuSurvey:
        """A survey that is not up."""
        why = 'switched off by gpu_source = "none" in [agent]'
        return GpuSurvey(up=False, why=why, at=now, source="none", fault=GpuFault.DISABLED)

    def close(self) -> None:
        """Nothing to let go of."""
