-- Format 3. Released: never edit, append migration 4 instead.

-- The last record of a session whose text is indexed. Existing histories are indexed later, in the background.
ALTER TABLE sessions ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0;

-- Records with a text.
CREATE TABLE texts (
    id      INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    seq     INTEGER NOT NULL
) STRICT;
CREATE INDEX texts_of_session ON texts (session);

-- The words of each text, without the text. They are split and in lower case already: the tokenizer only separates
-- them at spaces. No positions: a query is for words in any order.
CREATE VIRTUAL TABLE words USING fts5(text, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');
