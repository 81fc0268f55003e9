//! `pi --print --mode json`: one process for a prompt. It ends when pi does, because pi may try again after an end.

use serde_json::Value;

use super::common_args;
use super::events::Events;
use crate::dialect::{Dialect, Ending, Launch, Opening, Step, Steps};
use crate::json::text;

#[derive(Debug, Default)]
pub(crate) struct PiExec {
    events: Events,
    was_resumed: bool,
    ending: Option<Ending>,
}

impl Dialect for PiExec {
    fn name(&self) -> &'static str {
        "pi --print"
    }

    fn launch(&mut self, opening: &Opening<'_>) -> Launch {
        *self = Self { was_resumed: opening.token.is_some(), ..Self::default() };
        let mut args: Vec<String> = ["--print", "--mode", "json"].map(str::to_owned).into();
        if !opening.spec.allow_all {
            args.extend(["--tools", "read,grep,find,ls"].map(str::to_owned));
        }
        args.extend(common_args(opening));
        Launch { args, ..Launch::default() }
    }

    fn prompt(&mut self, prompt: &str, steps: &mut Steps) {
        steps.push(Step::SayAll(prompt.to_owned()));
    }

    fn hear(&mut self, line: &Value, steps: &mut Steps) {
        if line["type"] == "session"
            && let Some(session) = text(line, "/id")
        {
            steps.named(session, None);
        }
        if let Some(ending) = self.events.hear(line, steps) {
            self.ending = Some(ending);
        }
    }

    fn can_be_resumed(&self) -> bool {
        self.was_resumed || self.events.has_answer
    }

    fn at_exit(&self) -> Ending {
        let nothing = || Ending::Failed("pi ended without an answer.".to_owned());
        self.ending.clone().unwrap_or_else(nothing)
    }
}
