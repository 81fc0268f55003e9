//! The index of texts: words as lexemes, under a GIN index, and the cursor of each session.

use std::fmt::Write;

use baton_store::texts::{Hit, TextIndex, Texts, Unindexed, Words};
use baton_store::{Seq, StoreFuture};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::connect::{PooledClient, with_client};
use crate::error::QueryError;
use crate::read::{integer, natural, session_from};

/// Moves the cursor, if it is where the indexer expects it, and adds the texts.
const INDEX: &str = "
    WITH moved AS (
        UPDATE baton_sessions SET indexed = $3 WHERE id = $1 AND indexed = $2 AND head >= $3 RETURNING key
    ), written AS (
        INSERT INTO baton_texts (session, seq, words)
        SELECT moved.key, text.seq, array_to_tsvector(string_to_array(text.words, ' '))
        FROM moved, unnest($4, $5) AS text (seq, words)
    )
    SELECT key FROM moved";

const FIND: &str = "
    SELECT s.id, count(*), min(t.seq) FROM baton_texts t JOIN baton_sessions s ON s.key = t.session
    WHERE t.words @@ $1::text::tsquery GROUP BY s.key, s.id, s.modified ORDER BY s.modified DESC, s.id LIMIT $2";

impl TextIndex for PostgresStore {
    fn unindexed(&self, limit: usize) -> StoreFuture<'_, Vec<Unindexed>> {
        Box::pin(async move {
            let found = with_client!(self.database.reading(), |client| unindexed(&client, limit).await);
            found.map_err(|fault| self.database.failed("search", fault))
        })
    }

    fn index(&self, texts: Texts) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            // A second attempt after a lost reply finds the cursor moved, and adds nothing.
            let written = with_client!(self.database.writing_once(), |client| index(&client, &texts).await);
            written.map_err(|fault| self.database.failed("write to", fault))
        })
    }

    fn find(&self, query: Words, limit: usize) -> StoreFuture<'_, Vec<Hit>> {
        Box::pin(async move {
            if query.is_empty() {
                return Ok(Vec::new());
            }
            let found = with_client!(self.database.reading(), |client| find(&client, &query, limit).await);
            found.map_err(|fault| self.database.failed("search", fault))
        })
    }
}

async fn unindexed(client: &PooledClient, limit: usize) -> Result<Vec<Unindexed>, QueryError> {
    let sql = "SELECT id, indexed, head FROM baton_sessions WHERE indexed < head ORDER BY modified DESC, id LIMIT $1";
    let rows = client.query_typed(sql, &[(&integer(limit as u64), Type::INT8)]).await?;
    let read = |row: &Row| {
        let (indexed, head) = (Seq(natural(row.try_get(1)?)), Seq(natural(row.try_get(2)?)));
        Ok(Unindexed { session: session_from(row)?, indexed, head })
    };
    rows.iter().map(read).collect()
}

async fn index(client: &PooledClient, texts: &Texts) -> Result<bool, QueryError> {
    let seqs: Vec<i64> = texts.words.iter().map(|(seq, _)| integer(seq.0)).collect();
    let words: Vec<String> =
        texts.words.iter().map(|(_, words)| words.iter().collect::<Vec<_>>().join(" ")).collect();
    let rows = client
        .query_typed(
            INDEX,
            &[
                (&texts.session.as_str(), Type::TEXT),
                (&integer(texts.after.0), Type::INT8),
                (&integer(texts.through.0), Type::INT8),
                (&seqs, Type::INT8_ARRAY),
                (&words, Type::TEXT_ARRAY),
            ],
        )
        .await?;
    Ok(!rows.is_empty())
}

async fn find(client: &PooledClient, query: &Words, limit: usize) -> Result<Vec<Hit>, QueryError> {
    let mut expression = String::new();
    // Words consist of letters and digits: nothing in them ends the quotes.
    for (at, word) in query.iter().enumerate() {
        let and = if at == 0 { "" } else { " & " };
        let _ = write!(expression, "{and}'{word}':*");
    }
    let rows =
        client.query_typed(FIND, &[(&expression, Type::TEXT), (&integer(limit as u64), Type::INT8)]).await?;
    let read = |row: &Row| {
        let (matches, first) = (natural(row.try_get(1)?), Seq(natural(row.try_get(2)?)));
        Ok(Hit { session: session_from(row)?, matches, first })
    };
    rows.iter().map(read).collect()
}
