"""A database that refuses late holders: fence.sql, from Python."""

from pathlib import Path

CREATE, CLAIM = Path(__file__).with_name("fence.sql").read_text().split("\n\n")


class LateHolder(Exception):
    """A later holder of the lock has written."""


def write(db, name, fence, statement, values):
    """Runs a statement if no later holder of the lock has written. db is a sqlite3.Connection."""
    with db:  # one transaction: all of it, or nothing
        if db.execute(CLAIM, {"name": name, "fence": fence}).fetchone() is None:
            raise LateHolder(name)
        db.execute(statement, values)
