-- Format 1. Released: never edit, append migration 2 instead.

-- Epochs of leases. A sequence never repeats a number that was committed with a row, and does not make
-- acquisitions of different sessions wait for each other. Starting from the clock makes it very unlikely that a
-- database that replaces another one gives out an epoch again.
CREATE SEQUENCE baton_epochs;
SELECT setval('baton_epochs', (extract(epoch FROM clock_timestamp()) * 1000)::bigint);

CREATE TABLE baton_sessions (
    key      bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id       text    COLLATE "C" NOT NULL UNIQUE,
    created  bigint  NOT NULL,
    modified bigint  NOT NULL,
    head     bigint  NOT NULL,
    size     bigint  NOT NULL,
    epoch    bigint  NOT NULL,
    owner    text,             -- JSON; NULL while nobody holds the session
    server   text COLLATE "C", -- id of the server of the owner; NULL together with owner
    place    text COLLATE "C" NOT NULL, -- where its working directory is
    busy     boolean NOT NULL,
    meta     bytea   NOT NULL
) WITH (fillfactor = 80);

-- No index on modified: every append changes it, and without one an append changes no index of this table.
-- Takeover looks for busy sessions of dead servers; its cost must not depend on the number of idle ones.
CREATE INDEX baton_sessions_busy ON baton_sessions (server) WHERE busy AND server IS NOT NULL;

-- A kind is bytes: a text of PostgreSQL cannot contain a zero byte.
CREATE TABLE baton_events (
    session bigint NOT NULL,
    seq     bigint NOT NULL,
    kind    bytea  NOT NULL,
    body    bytea  NOT NULL,
    PRIMARY KEY (session, seq)
);

-- Apart from sessions, whose rows are written anew with every append.
CREATE TABLE baton_snapshots (
    session bigint PRIMARY KEY,
    seq     bigint NOT NULL,
    body    bytea  NOT NULL
);

-- Servers that use this database. Times are those of the database, never of a server.
CREATE TABLE baton_servers (
    id      text COLLATE "C" PRIMARY KEY,
    number  bigint GENERATED ALWAYS AS IDENTITY,
    owner   text NOT NULL,          -- JSON
    address text NOT NULL,          -- of its peer link; empty while it has none
    place   text COLLATE "C" NOT NULL,
    version text NOT NULL,
    home    text NOT NULL,          -- with the list of its processes, on its own host
    draining boolean NOT NULL DEFAULT false,
    started timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen    timestamptz NOT NULL DEFAULT clock_timestamp()
);
