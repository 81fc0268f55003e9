-- Format 4. Released: never edit, append migration 5 instead.

-- Files beside the histories: plans, checkpoints, snapshots for rewinding. Servers keep copies on their disks.
CREATE TABLE baton_files (
    session bigint NOT NULL,
    path    text   COLLATE "C" NOT NULL,
    digest  text   COLLATE "C" NOT NULL,
    body    bytea  NOT NULL,
    PRIMARY KEY (session, path)
);
