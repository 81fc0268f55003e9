//! The built-in tools, by name.

use std::sync::Arc;

use baton_protocol::tool::ToolSpec;

use super::Tool;
use super::files::{Create, Edit, View};
use super::search::{Glob, Grep};
use super::shell::{Bash, ListBash, ReadBash, StopBash, WriteBash};
use super::sql::Sql;
use super::web::WebFetch;

/// The built-in tools, in the order in which models get them. The order never changes, because providers cache the
/// request up to the first difference.
#[derive(Clone)]
pub struct Toolbox(Vec<(ToolSpec, Arc<dyn Tool>)>);

impl Default for Toolbox {
    fn default() -> Self {
        let tools: [Arc<dyn Tool>; 12] = [
            Arc::new(Bash),
            Arc::new(ReadBash),
            Arc::new(WriteBash),
            Arc::new(StopBash),
            Arc::new(ListBash),
            Arc::new(View),
            Arc::new(Create),
            Arc::new(Edit::default()),
            Arc::new(WebFetch),
            Arc::new(Sql),
            Arc::new(Grep),
            Arc::new(Glob),
        ];
        Self(tools.into_iter().map(|tool| (tool.spec(), tool)).collect())
    }
}

impl Toolbox {
    /// Returns all specifications in order.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.0.iter().map(|(spec, _)| spec)
    }

    /// Finds a tool by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.0.iter().find(|(spec, _)| spec.name == name).map(|(_, tool)| Arc::clone(tool))
    }
}

#[cfg(test)]
mod tests {
    use baton_protocol::Json;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::tools::Prepared;
    use crate::tools::testing::Bench;

    #[test]
    fn order_is_stable_and_every_tool_is_found() {
        let toolbox = Toolbox::default();
        let names: Vec<&str> = toolbox.specs().map(|spec| spec.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "bash",
                "read_bash",
                "write_bash",
                "stop_bash",
                "list_bash",
                "view",
                "create",
                "edit",
                "web_fetch",
                "sql",
                "grep",
                "glob"
            ]
        );
        assert!(names.iter().all(|name| toolbox.get(name).unwrap().spec().name == *name));
        assert!(toolbox.get("report_intent").is_none());
    }

    #[test]
    fn every_required_argument_is_described() {
        for spec in Toolbox::default().specs() {
            let schema: Value = spec.parameters.as_ref().unwrap().parse().unwrap();
            assert_eq!(schema["type"], "object", "{}", spec.name);
            for name in schema["required"].as_array().into_iter().flatten() {
                let property = &schema["properties"][name.as_str().unwrap()];
                assert!(property["description"].is_string(), "{}: {name}", spec.name);
            }
        }
    }

    /// Generates JSON with the names of real arguments.
    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(|n| json!(n)),
            "\\PC{0,8}".prop_map(Value::from),
            prop_oneof!["true", ".", "[0-9]{1,3}", "http://x", "\\*\\*"].prop_map(Value::from),
        ];
        let key = prop_oneof![
            Just("path"),
            Just("view_range"),
            Just("pattern"),
            Just("shellId"),
            Just("delay"),
            Just("query"),
            Just("url"),
            Just("old_str"),
            Just("new_str"),
            Just("input"),
            Just("-A"),
            Just("head_limit"),
            Just("glob"),
            Just("type"),
            Just("start_index"),
            Just("initial_wait"),
            Just("mode"),
            Just("output_mode"),
        ];
        leaf.prop_recursive(2, 12, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::vec((key.clone(), inner), 0..6).prop_map(|pairs| pairs
                    .into_iter()
                    .map(|(k, v)| (k.to_owned(), v))
                    .collect::<serde_json::Map<_, _>>()
                    .into()),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// For any arguments, every tool describes its effect or the mistake, and nothing else happens. Read-only
        /// tools are run, too.
        #[test]
        fn any_arguments_are_handled(arguments in any_json()) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let bench = Bench::new();
                for (spec, tool) in Toolbox::default().0 {
                    let prepared = tool.prepare(&bench.context, &Json::from(arguments.clone())).await;
                    let reads = ["read_bash", "list_bash", "view", "web_fetch", "grep", "glob", "edit"];
                    if matches!(prepared, Prepared::Refused(_)) || reads.contains(&spec.name.as_str()) {
                        bench.run(tool.as_ref(), arguments.clone()).await;
                    }
                }
            });
        }
    }
}
