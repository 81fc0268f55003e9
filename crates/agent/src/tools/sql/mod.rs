//! `sql`: a database for each session, with the model's todo list and any other tables that it creates.
//!
//! The database is a file of the session, and SQL can reach nothing else: see `database`.

mod database;
mod report;

pub use database::{Dependency, SessionDatabase, Todo};

use baton_protocol::Json;
use baton_protocol::tool::{ToolResult, ToolSpec};
use serde::Deserialize;
use serde_json::json;

use super::{Prepared, Tool, ToolContext, ToolRefusal, Working, arguments, blocking, either, schema, spec};

const NAME: &str = "sql";

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
                let (database, cancel) = (context.services.database.clone(), context.cancel.clone());
                blocking(move || {
                    let run = database.run(&query, &cancel);
                    Ok(report::result(&query, &run))
                })
                .await
            };
            either(run.await)
        })
    }
}

#[cfg(test)]
mod tests;
