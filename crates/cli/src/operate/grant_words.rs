//! Grants and rules in words, as the questions that led to them put it.

use baton_protocol::permission::Approval;
use baton_protocol::rules::{Rule, RuleKind};

/// Characters that no name of a command has.
const SYNTAX: &str = "$`<>|&;(){}\"'\\*?~=#";

/// Says what a grant allows.
pub(super) fn grant(approval: &Approval) -> String {
    match approval {
        Approval::Commands { command_identifiers } => {
            command_identifiers.iter().map(|id| command(id)).collect::<Vec<_>>().join("; ")
        }
        Approval::Write {} => "changing files in the working directory, except special ones".into(),
        Approval::Read {} => "reading any file that the server can read, except special ones".into(),
        Approval::Url { domain } => format!("any page of {domain}"),
        Approval::Memory {} => "remembering any fact".into(),
        Approval::CustomTool { tool_name } => format!("any call of the client tool `{tool_name}`"),
        Approval::Mcp { server_name, tool_name: Some(tool) } => {
            format!("any call of `{tool}` of the MCP server `{server_name}`")
        }
        Approval::Mcp { server_name, tool_name: None } => {
            format!("any tool of the MCP server `{server_name}`")
        }
    }
}

/// Says which commands an identifier stands for: `git:*` is all that git can do. A line of one or two plain words cannot be told
/// from a name, which stands for more.
fn command(identifier: &str) -> String {
    let words: Vec<&str> = identifier.split(' ').collect();
    let is_name = match words[..] {
        [_] | [_, _] | [_, "run", _] => !identifier.contains(|c: char| c.is_control() || SYNTAX.contains(c)),
        _ => false,
    };
    match identifier.strip_suffix(":*") {
        Some(name) => format!("any `{name}` command"),
        None if is_name => format!("`{identifier}` with any plain arguments"),
        None => format!("exactly `{identifier}`"),
    }
}

/// Says what a rule is about.
pub(super) fn rule(rule: &Rule) -> String {
    let argument = rule.argument.as_deref();
    match (rule.kind, argument) {
        (RuleKind::Shell, Some(id)) => command(id),
        (RuleKind::Shell, None) => "any command".into(),
        (RuleKind::Read, None) => "reading files".into(),
        (RuleKind::Read, Some(path)) => format!("reading {path}"),
        (RuleKind::Write, None) => "changing files".into(),
        (RuleKind::Write, Some(path)) => format!("changing {path}"),
        (RuleKind::Memory, _) => "remembering any fact".into(),
        (RuleKind::Url, None) => "any web page".into(),
        (RuleKind::Url, Some(pattern)) => format!("any page of {pattern}"),
        (RuleKind::CustomTool, None) => "any client tool".into(),
        (RuleKind::CustomTool, Some(tool)) => format!("any call of the client tool `{tool}`"),
        (RuleKind::Mcp, None) => "any tool of any MCP server".into(),
        (RuleKind::Mcp, Some(argument)) => {
            match argument.strip_suffix(')').and_then(|rest| rest.split_once('(')) {
                Some((server, tool)) => format!("any call of `{tool}` of the MCP server `{server}`"),
                None => format!("any tool of the MCP server `{argument}`"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_told_in_the_words_of_the_question() {
        let commands = |ids: &[&str]| Approval::Commands {
            command_identifiers: ids.iter().map(|&id| id.to_owned()).collect(),
        };
        for (approval, words) in [
            (commands(&["echo"]), "`echo` with any plain arguments"),
            (
                commands(&["git status", "make:*"]),
                "`git status` with any plain arguments; any `make` command",
            ),
            (commands(&["echo $HOME > a"]), "exactly `echo $HOME > a`"),
            (commands(&["npm run build"]), "`npm run build` with any plain arguments"),
            (commands(&["touch a b c"]), "exactly `touch a b c`"),
            (Approval::Mcp { server_name: "db".into(), tool_name: None }, "any tool of the MCP server `db`"),
        ] {
            assert_eq!(grant(&approval), words);
        }
        assert_eq!(
            rule(&Rule::new(RuleKind::Mcp, Some("db(query)"))),
            "any call of `query` of the MCP server `db`"
        );
        assert_eq!(rule(&Rule::new(RuleKind::Shell, Some("git push:*"))), "any `git push` command");
    }
}
