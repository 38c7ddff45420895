"""An index over the replicas that are not stopped: the only ones that every tick and every long poll asks for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("replica_state_idx", "replica")
    op.create_index("replica_host_idx", "replica", ["host"], postgresql_where=sa.text("state <> 'stopped'"))


def downgrade() -> None:
    op.drop_index("replica_host_idx", "replica")
    op.create_index("replica_state_idx", "replica", ["state"])
