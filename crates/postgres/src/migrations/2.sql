-- Format 2. Released: never edit, append migration 3 instead.

-- Small named values beside the sessions, such as the list of people. Replaced as a whole, if the version still fits.
CREATE TABLE baton_documents (
    name    text   PRIMARY KEY,
    version bigint NOT NULL,
    body    bytea  NOT NULL
);
