-- Format 5. Released: never edit, append migration 6 instead.

-- Sessions that were created or deleted a moment ago, for the lists that clients of other servers show. Rows are deleted after a
-- minute. Changes are news, not truth: a server may miss one.
CREATE TABLE baton_changes (
    number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session text COLLATE "C" NOT NULL,
    deleted boolean NOT NULL,
    server  text COLLATE "C",       -- that made the change; NULL if it was none
    at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
