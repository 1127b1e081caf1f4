"""The tables of live histories, and the change from former formats to the present one.

    komd_events(user_id, item_id, at, kind, weight, time, seq, least)
        one row a pair: what its events came to. `at` is when that was stored, `time` when it happened (null: at `at`),
        both in milliseconds since 1970; `weight` is null where none was given, and `least` is the largest weight that
        the types of the events say. A withdrawn pair keeps its row, so that what a model knows of the pair is not used
        either; so does a pair of which no event is left (kind "none"), so that learners see it. `seq` is the number of
        the commit that changed the row last.
    komd_log(user_id, item_id, event_id, kind, type, weight, least, time, at, seq, position, recommendation)
        one row for each event that is not withdrawn, in the order of `seq` and `position`; `time` is null where the
        event does not change when the pair happened. A pair of an earlier format has no rows until its next event
        comes: `EventLog` adds what was known as one event.
    komd_report(day, release, arm, name, count)
        how often lists were given out and led to events; no ids of users or items
    komd_forgotten(mark, seq)
        a keyed hash of each forgotten id: what a model knows of that user is not used. `seq` is the number of the
        commit that forgot the user last.
    komd_items(item_id, available, at, seq)
        whether an item is available, where that was posted; when it changed last, and by which commit
    komd_settings(name, value)
        the format, a check value of the key of those hashes (`forget_key.py`), `seq` (the number of the last commit),
        and what all workers must know

Format 1 had no kind, weight and time, format 2 no seq, format 3 no least, log and report. New columns are null or
constant in old rows, so that adding them takes a moment however large the table is; building the index of seq takes
seconds for millions of rows.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sql
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.schema import CreateColumn

__all__ = ["FORMAT", "EventTables"]

FORMAT = "4"
"""The format of stores that are written."""

# The columns that a format did not have and the next one has.
_ADDED = {
    "1": (("komd_events", "kind"), ("komd_events", "weight"), ("komd_events", "time")),
    "2": (("komd_events", "seq"), ("komd_forgotten", "seq")),
    "3": (("komd_events", "least"),),
}
_FIRST = "1"  # the number that old rows get; the next commit takes 2


class EventTables:
    """The tables of a store, in the dialect of its database, and the statements that are made once."""

    def __init__(self, dialect: sql.Dialect) -> None:
        text = sql.Text(collation="C") if dialect.name == "postgresql" else sql.Text()
        self.dialect = dialect
        self._schema = sql.MetaData()
        self.insert: Any = postgresql_insert if dialect.name == "postgresql" else sqlite_insert
        """INSERT with ON CONFLICT."""
        self.events = sql.Table(
            "komd_events",
            self._schema,
            sql.Column("user_id", text, primary_key=True),
            sql.Column("item_id", text, primary_key=True),
            sql.Column("at", sql.BigInteger, nullable=False),
            sql.Column("kind", sql.Text, nullable=False, server_default="chosen"),
            sql.Column("weight", sql.Double),
            sql.Column("time", sql.BigInteger),
            sql.Column("seq", sql.BigInteger, nullable=False, server_default=sql.text(_FIRST)),
            sql.Column("least", sql.Double),
            sql.Index("komd_events_seq", "seq", "user_id", "item_id"),  # changes are read in this order
            sqlite_with_rowid=False,
        )
        recommendation = sql.Column("recommendation", sql.Text)
        attributed = recommendation.is_not(None)
        self.log = sql.Table(
            "komd_log",
            self._schema,
            sql.Column("user_id", text, primary_key=True),
            sql.Column("item_id", text, primary_key=True),
            sql.Column("event_id", text, primary_key=True),
            sql.Column("kind", sql.Text, nullable=False),
            sql.Column("type", sql.Text),
            sql.Column("weight", sql.Double),
            sql.Column("least", sql.Double),
            sql.Column("time", sql.BigInteger),
            sql.Column("at", sql.BigInteger, nullable=False),
            sql.Column("seq", sql.BigInteger, nullable=False),
            sql.Column("position", sql.Integer, nullable=False),
            recommendation,
            sql.Index("komd_log_event", "event_id", unique=True),
            sql.Index("komd_log_recommendation", recommendation, sqlite_where=attributed, postgresql_where=attributed),
            sqlite_with_rowid=False,
        )
        self.report = sql.Table(
            "komd_report",
            self._schema,
            sql.Column("day", sql.Integer, primary_key=True),
            sql.Column("release", sql.Text, primary_key=True),
            sql.Column("arm", sql.Integer, primary_key=True),
            sql.Column("name", sql.Text, primary_key=True),
            sql.Column("count", sql.BigInteger, nullable=False),
            sqlite_with_rowid=False,
        )
        self.forgotten = sql.Table(
            "komd_forgotten",
            self._schema,
            sql.Column("mark", sql.Text, primary_key=True),
            sql.Column("seq", sql.BigInteger, nullable=False, server_default=sql.text(_FIRST)),
            sql.Index("komd_forgotten_seq", "seq"),
        )
        self.items = sql.Table(
            "komd_items",
            self._schema,
            sql.Column("item_id", text, primary_key=True),
            sql.Column("available", sql.Boolean, nullable=False),
            sql.Column("at", sql.BigInteger, nullable=False),
            sql.Column("seq", sql.BigInteger, nullable=False),
            sql.Index("komd_items_seq", "seq"),
        )
        self.settings = sql.Table(
            "komd_settings",
            self._schema,
            sql.Column("name", sql.Text, primary_key=True),
            sql.Column("value", sql.Text, nullable=False),
        )

    def prepare(self, connection: sql.Connection) -> dict[str, str]:
        """Create the tables if they do not exist, and change those of former formats; returns the store's settings.

        All in the transaction of `connection`: interrupted, it leaves the store as it was.
        """
        self._schema.create_all(connection)
        for row in (("format", FORMAT), ("seq", _FIRST)):
            connection.execute(self.insert(self.settings).values(row).on_conflict_do_nothing())
        # Workers that start together wait here for the one that changes the tables, and then find them changed.
        held = {
            str(name): str(value) for name, value in connection.execute(sql.select(self.settings).with_for_update())
        }
        if held["format"] in _ADDED:
            for former in range(int(held["format"]), int(FORMAT)):
                for table, name in _ADDED[str(former)]:
                    column = CreateColumn(self._schema.tables[table].c[name]).compile(dialect=self.dialect)
                    connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {column}")
            for index in (*self.events.indexes, *self.forgotten.indexes):
                index.create(connection, checkfirst=True)
            format_row = self.settings.c.name == "format"
            connection.execute(sql.update(self.settings).where(format_row).values(value=FORMAT))
            held["format"] = FORMAT
        return held

    # ---- reading ----------------------------------------------------------------------------------------------

    def history_query(self) -> Any:
        """Of a `user`: rows (item_id, at, kind, weight, time, least) of the `newest` pairs, and one without an item if
        `mark` is among the forgotten. One statement, so that both parts see the same state."""
        events = self.events.c
        columns = (events.item_id, events.at, events.kind, events.weight, events.time, events.least)
        latest = (
            sql.select(*columns)
            .where(events.user_id == sql.bindparam("user"), events.kind != "none")
            .order_by(events.at.desc(), events.item_id.desc())
            .limit(sql.bindparam("newest", type_=sql.Integer))
            .subquery()
        )
        forgotten = self.forgotten.c.mark == sql.bindparam("mark")
        empty = [sql.null().label(name) for name in ("item_id", "kind", "weight", "time", "least")]
        mark = sql.select(empty[0], sql.literal(-1).label("at"), *empty[1:]).where(forgotten)
        return sql.union_all(sql.select(*latest.c), mark)

    def last_seq(self) -> Any:
        """The number of the last commit, as text."""
        return sql.select(self.settings.c.value).where(self.settings.c.name == "seq")

    def pending(self) -> Any:
        """One row: the number of the last commit, and of what changed later than `after`: events, oldest, forgotten."""
        after = sql.bindparam("after", type_=sql.BigInteger)
        events, forgotten = self.events.c, self.forgotten.c
        counted = sql.select(sql.func.count(), sql.func.min(events.at)).where(events.seq > after).subquery()
        marks = sql.select(sql.func.count()).where(forgotten.seq > after).scalar_subquery()
        return sql.select(self.last_seq().scalar_subquery(), *counted.c, marks)

    def seq_at_limit(self) -> Any:
        """The number of the commit with which more than `skipped` events changed later than `after` are complete."""
        seq = self.events.c.seq
        return (
            sql.select(seq)
            .where(seq > sql.bindparam("after", type_=sql.BigInteger))
            .order_by(seq)
            .limit(1)
            .offset(sql.bindparam("skipped", type_=sql.BigInteger))
        )

    def changed_events(self) -> Any:
        """Rows (user_id, item_id, kind, weight, time, least) that commits after `after`, up to `last`, changed."""
        events = self.events.c
        when = sql.func.coalesce(events.time, events.at)
        return (
            sql.select(events.user_id, events.item_id, events.kind, events.weight, when, events.least)
            .where(*_between(events.seq))
            .order_by(events.seq, events.user_id, events.item_id)
        )

    def forgotten_marks(self) -> Any:
        """The marks of users whom commits after `after`, up to `last`, forgot."""
        forgotten = self.forgotten.c
        return sql.select(forgotten.mark).where(*_between(forgotten.seq)).order_by(forgotten.seq, forgotten.mark)

    def last_forgotten(self) -> Any:
        """The number of the commit that forgot a user last; null if none was."""
        return sql.select(sql.func.max(self.forgotten.c.seq))

    def changed_items(self) -> Any:
        """Rows (item_id, available, seq) of the items whose availability commits after `after` changed, in order."""
        items = self.items.c
        after = sql.bindparam("after", type_=sql.BigInteger)
        return sql.select(items.item_id, items.available, items.seq).where(items.seq > after).order_by(items.seq)

    # ---- writing ----------------------------------------------------------------------------------------------

    def count_commit(self) -> Any:
        """Set the number of the last commit to `number`, a text."""
        return sql.update(self.settings).where(self.settings.c.name == "seq").values(value=sql.bindparam("number"))

    def forget(self) -> Any:
        """Mark a user as forgotten (a row of the table); forgetting again changes the number of the commit."""
        statement = self.insert(self.forgotten)
        return statement.on_conflict_do_update(
            index_elements=[self.forgotten.c.mark], set_={"seq": statement.excluded.seq}
        )

    def set_item(self) -> Any:
        """Store whether an item is available (a row of the table), where that is new."""
        statement = self.insert(self.items)
        new = statement.excluded
        return statement.on_conflict_do_update(
            index_elements=[self.items.c.item_id],
            set_={"available": new.available, "at": new.at, "seq": new.seq},
            where=self.items.c.available != new.available,
        )


def _between(seq: Any) -> tuple[Any, Any]:
    after, last = (sql.bindparam(name, type_=sql.BigInteger) for name in ("after", "last"))
    return seq > after, seq <= last
