-- Format 1. Released: never edit, append migration 2 instead.

PRAGMA application_id = 0x4241544E; -- "BATN"

CREATE TABLE sessions (
    -- Never used again, because the events of a deleted session are cleared away only later.
    key      INTEGER PRIMARY KEY AUTOINCREMENT,
    id       TEXT    NOT NULL UNIQUE,
    created  INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    head     INTEGER NOT NULL,
    size     INTEGER NOT NULL,
    epoch    INTEGER NOT NULL,
    owner    TEXT,    -- JSON; NULL while nobody holds the session
    instance INTEGER, -- through which open store it is held; NULL together with owner
    busy     INTEGER NOT NULL,
    meta     BLOB    NOT NULL
) STRICT;

-- An ordinary table with an index beside it, not a clustered one (WITHOUT ROWID): with many sessions writing at
-- once, all of them append to the same last page instead of each to one of its own, and a body of 1 KB fits into
-- a page of 4 KB where a clustered table chains it. One comparison (64 sessions, 1 KB bodies, 64 to a commit): a
-- quarter of the bytes written, a third of the file, 1.6 times the records per second with full durability and 5
-- times without; a history was read in about half the time. Bodies of 200 KB stay in the row: kept so, the file
-- is less than 1 % larger than what is in it.
CREATE TABLE events (
    session INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    kind    TEXT    NOT NULL,
    body    BLOB    NOT NULL,
    PRIMARY KEY (session, seq)
) STRICT;

-- Apart from sessions, whose rows are written anew with every append.
CREATE TABLE snapshots (
    session INTEGER PRIMARY KEY,
    seq     INTEGER NOT NULL,
    body    BLOB    NOT NULL
) STRICT;

-- Sessions whose events are still to be cleared away, a few at a time.
CREATE TABLE deleted (
    session INTEGER PRIMARY KEY
) STRICT;

-- The last epoch that was given out. Starting from the clock makes it very unlikely that a file that replaces
-- another one gives out an epoch again.
CREATE TABLE epochs (
    last INTEGER NOT NULL
) STRICT;
INSERT INTO epochs VALUES (CAST(unixepoch('subsec') * 1000 AS INTEGER));
