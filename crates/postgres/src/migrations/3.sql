-- Format 3. Released: never edit, append migration 4 instead.

-- The last record of a session whose text is indexed. Existing histories are indexed later, in the background.
ALTER TABLE baton_sessions ADD COLUMN indexed bigint NOT NULL DEFAULT 0;

-- The words of records with a text, without the text. They are split and in lower case already, so they are stored as
-- lexemes directly: what the configuration `simple` would do, without its parser, which splits in other places than SQLite.
CREATE TABLE baton_texts (
    session bigint   NOT NULL,
    seq     bigint   NOT NULL,
    words   tsvector NOT NULL,
    PRIMARY KEY (session, seq)
);
CREATE INDEX baton_texts_words ON baton_texts USING gin (words);
