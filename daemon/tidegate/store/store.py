"""The whole store over one database: what the controller's wiring hands out."""

from __future__ import annotations

from tidegate.runtime.pace import NoPace, Pace
from tidegate.store.alerts import StoredAlerts
from tidegate.store.bills import StoredBills
from tidegate.store.commands import StoredCommands
from tidegate.store.compaction import StoredCompaction
from tidegate.store.costs import StoredCosts
from tidegate.store.database import Database
from tidegate.store.decisions import StoredDecisions
from tidegate.store.fence import Fence, NoFence
from tidegate.store.figures import StoredFigures
from tidegate.store.history import StoredHistory
from tidegate.store.hosts import StoredHosts, StoredUsers
from tidegate.store.job_runs import StoredJobRuns
from tidegate.store.layouts import MOST_SERIES, Layouts
from tidegate.store.partitions import Partitions
from tidegate.store.replicas import StoredReplicas
from tidegate.store.reports import StoredReports
from tidegate.store.retention import StoredRetention
from tidegate.store.series import SeriesBook
from tidegate.store.usage import StoredUsage


class Store:
    """Every repository; each implements the port of its name in `controller/ports.py`."""

    def __init__(
        self,
        database: Database,
        fence: Fence | None = None,
        pace: Pace | None = None,
        most_series: int = MOST_SERIES,
    ) -> None:
        """`fence` keeps what only a leader may write; without one everything may be written, as for a command.

        `pace`: how large work leaves room for others; without one it takes all there is. `most_series`: so many series
        of layouts are remembered.
        """
        pace = pace or NoPace()
        self.database = database
        self.fence = fence or NoFence()
        layouts, partitions = Layouts(database, most_series), Partitions(database)
        self.histories = StoredHistory(database, layouts)
        self.reports = StoredReports(database, layouts, partitions)
        self.hosts = StoredHosts(database)
        self.users = StoredUsers(database)
        self.replicas = StoredReplicas(database, self.fence)
        self.decisions = StoredDecisions(database, self.fence)
        self.compaction = StoredCompaction(database, SeriesBook(layouts, pace), self.fence, pace)
        self.usage = StoredUsage(database, layouts, self.fence, pace)
        self.commands = StoredCommands(database)
        self.bills = StoredBills(database)
        self.costs = StoredCosts(database, self.fence)
        self.alerts = StoredAlerts(database, self.fence)
        self.figures = StoredFigures(database, self.fence, partitions, pace)
        self.job_runs = StoredJobRuns(database, self.fence)
        self.retention = StoredRetention(database, self.fence)
