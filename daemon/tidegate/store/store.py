"""The whole store over one database: what the controller's wiring hands out."""

from __future__ import annotations

from tidegate.store.alerts import StoredAlerts
from tidegate.store.database import Database
from tidegate.store.decisions import StoredDecisions
from tidegate.store.hosts import StoredHosts, StoredUsers
from tidegate.store.layouts import Layouts
from tidegate.store.replicas import StoredReplicas
from tidegate.store.reports import StoredReports
from tidegate.store.retention import StoredRetention
from tidegate.store.usage import StoredUsage


class Store:
    """Every repository; each implements the port of its name in `controller/ports.py`."""

    def __init__(self, database: Database) -> None:
        self.database = database
        layouts = Layouts()
        self.reports = StoredReports(database, layouts)
        self.hosts = StoredHosts(database)
        self.users = StoredUsers(database)
        self.replicas = StoredReplicas(database)
        self.decisions = StoredDecisions(database)
        self.usage = StoredUsage(database, layouts)
        self.alerts = StoredAlerts(database)
        self.retention = StoredRetention(database)
