//! `pi --print --mode json`: one process for each prompt. The run ends with the process, because pi may retry after it
//! has announced an end.

use serde_json::Value;

use super::events::Events;
use super::{common_args, no_answer};
use crate::adapter::{Adapter, Launch, LaunchContext, RunEnding, Step, Steps};
use crate::json::text;

#[derive(Debug, Default)]
pub(crate) struct PiExec {
    events: Events,
    was_resumed: bool,
    ending: Option<RunEnding>,
}

impl Adapter for PiExec {
    fn name(&self) -> &'static str {
        "pi --print"
    }

    fn launch(&mut self, context: &LaunchContext<'_>) -> Launch {
        *self = Self { was_resumed: context.token.is_some(), ..Self::default() };
        let mut args: Vec<String> = ["--print", "--mode", "json"].map(str::to_owned).into();
        if !context.spec.allow_all {
            args.extend(["--tools", "read,grep,find,ls"].map(str::to_owned));
        }
        args.extend(common_args(context));
        Launch { args, ..Launch::default() }
    }

    fn prompt(&mut self, prompt: &str, steps: &mut Steps) {
        steps.push(Step::SendAndClose(prompt.to_owned()));
    }

    fn receive(&mut self, line: &Value, steps: &mut Steps) {
        if line["type"] == "session"
            && let Some(session) = text(line, "/id")
        {
            steps.identified(session, None);
        }
        if let Some(ending) = self.events.receive(line, steps) {
            self.ending = Some(ending);
        }
    }

    fn is_resumable(&self) -> bool {
        self.was_resumed || self.events.has_answer
    }

    fn ending_at_exit(&self) -> RunEnding {
        self.ending.clone().unwrap_or_else(no_answer)
    }
}
