//! `sql`: a database for each session, with the model's todo list and any other tables that it creates.
//!
//! The SQL runs in a process of its own and can reach nothing but the session's file: see `baton_sql`.

use baton_protocol::Json;
use baton_protocol::tool::{ResultType, ToolResult, ToolSpec};
pub use baton_sql::{Dependency, SessionDatabase, SqlProgram, Todo};
use baton_sql::{LARGEST_QUERY, QueryResult};
use serde::Deserialize;
use serde_json::json;

use super::text::clip;
use super::{Prepared, Tool, ToolContext, ToolRefusal, Working, arguments, either, schema, spec};

const NAME: &str = "sql";
/// Length limit of a query in the session's log.
const LOGGED_BYTES: usize = 40 * 1024;

#[derive(Deserialize)]
struct Arguments {
    #[serde(alias = "sql")]
    query: String,
    database: Option<String>,
}

impl Arguments {
    fn read(arguments: &Json) -> Result<Self, ToolRefusal> {
        let parsed: Self = arguments::read(NAME, arguments)?;
        // SQLite would take it for the end, and run only the text before it.
        if parsed.query.contains('\0') {
            return Err(ToolRefusal::arguments(NAME, "query: must not contain the character NUL"));
        }
        if parsed.query.len() > LARGEST_QUERY {
            return Err(ToolRefusal::arguments(NAME, "query: longer than 1 MB; send it in several calls"));
        }
        match parsed.database.as_deref() {
            None | Some("session" | "") => Ok(parsed),
            Some(other) => Err(ToolRefusal::arguments(
                NAME,
                &format!("database: there is no {other:?}, only \"session\""),
            )),
        }
    }
}

/// Runs SQL in the session's database.
pub(crate) struct Sql;

impl Tool for Sql {
    fn spec(&self) -> ToolSpec {
        spec(
            NAME,
            "Runs SQL (SQLite) in a database of this session, for things to keep track of: tasks, test \
             cases, batches. Several statements may be separated by semicolons. Ready to use are:\n\
             * todos(id TEXT PRIMARY KEY, title, description, status, created_at, updated_at), where status \
             is pending, in_progress, done or blocked\n\
             * todo_deps(todo_id, depends_on)\n\
             Create other tables as you need them.",
            schema::object(
                &json!({
                    "description": schema::string("What the query does, in 2 to 5 words."),
                    "query": schema::string("The SQL."),
                    "database": schema::choice(&["session"], "Always \"session\"."),
                }),
                &["description", "query"],
            ),
        )
    }

    fn prepare<'a>(&'a self, _: &'a ToolContext, arguments: &'a Json) -> Working<'a, Prepared> {
        Box::pin(
            async move { Arguments::read(arguments).map_or_else(Prepared::from, |_| Prepared::Harmless) },
        )
    }

    fn run<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, ToolResult> {
        Box::pin(async move {
            let run = async {
                let query = Arguments::read(arguments)?.query;
                let result = context.services.database.run(&query, &context.cancel).await;
                Ok(reported(&query, result))
            };
            either(run.await)
        })
    }
}

fn reported(query: &str, result: QueryResult) -> ToolResult {
    ToolResult {
        result_type: if result.failed { ResultType::Failure } else { ResultType::Success },
        session_log: Some(format!("SQL: {}\n\n{}", clip(query, LOGGED_BYTES), result.text)),
        ..ToolResult::success(result.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testing::Bench;

    #[tokio::test]
    async fn invalid_arguments_are_explained() {
        let bench = Bench::new();
        for (arguments, hint) in [
            (json!({"query": "SELECT 1", "database": "other"}), "database"),
            (json!({}), "missing field `query`"),
            (json!({"query": "SELECT 1\u{0}; DROP TABLE t"}), "NUL"),
            (json!({"query": "-".repeat(LARGEST_QUERY + 1)}), "longer than 1 MB"),
        ] {
            let result = bench.run(&Sql, arguments).await;
            assert_eq!(result.result_type, ResultType::Failure, "{hint}: {}", result.text_result_for_llm);
            assert!(result.text_result_for_llm.contains(hint), "{}", result.text_result_for_llm);
        }
    }

    #[tokio::test]
    async fn server_without_its_program_says_so() {
        let result = Bench::new().run(&Sql, json!({"query": "SELECT 1"})).await;
        assert_eq!(result.result_type, ResultType::Failure);
        assert!(result.text_result_for_llm.contains("cannot run SQL"), "{}", result.text_result_for_llm);
    }

    #[test]
    fn failed_query_is_a_failed_call() {
        let of = |failed| reported("SELECT 1", QueryResult { text: "x".into(), failed });
        assert_eq!(of(true).result_type, ResultType::Failure);
        assert_eq!(of(false).result_type, ResultType::Success);
        assert_eq!(of(false).session_log.as_deref(), Some("SQL: SELECT 1\n\nx"));
    }
}
