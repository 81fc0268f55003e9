//! Names under which models see the tools of servers.

use std::collections::{HashMap, HashSet};

/// Names that are remembered for a server: it can change its tools without end.
const MOST_NAMES: usize = 5_000;

/// The longest name that all model providers accept.
const LONGEST: usize = 64;

/// Returns the name under which a tool is offered: server and tool, joined by a hyphen. Characters that providers refuse
/// become hyphens. A name that is too long is cut, and ends in a digest of the whole, so that two of them stay different.
#[must_use]
pub fn offered_name(server: &str, tool: &str) -> String {
    let whole = format!("{server}-{tool}");
    let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '-' };
    let name: String = whole.chars().map(allowed).collect();
    if name.len() <= LONGEST {
        return name;
    }
    format!("{}-{:07x}", &name[..LONGEST - 8], digest(&whole) & 0xfff_ffff)
}

/// The names of the tools of a session, each for one tool only, for as long as the session is open.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Names of the tools of each server.
    given: HashMap<String, HashMap<String, String>>,
    taken: HashSet<String>,
}

impl Names {
    /// Returns the name of a tool, and gives it one with the first use. `None` when the server has had too many.
    pub(crate) fn of(&mut self, server: &str, tool: &str) -> Option<String> {
        let given = self.given.entry(server.to_owned()).or_default();
        if let Some(name) = given.get(tool) {
            return Some(name.clone());
        }
        if given.len() >= MOST_NAMES {
            return None;
        }
        let name = distinct(offered_name(server, tool), |name| self.taken.contains(name));
        self.taken.insert(name.clone());
        given.insert(tool.to_owned(), name.clone());
        Some(name)
    }
}

/// Returns a name that is not taken yet, by appending a number.
fn distinct(name: String, is_taken: impl Fn(&str) -> bool) -> String {
    if !is_taken(&name) {
        return name;
    }
    let numbered = |n: usize| {
        let suffix = format!("-{n}");
        let stem = &name[..name.len().min(LONGEST - suffix.len())];
        format!("{stem}{suffix}")
    };
    (2..).map(numbered).find(|name| !is_taken(name)).unwrap_or(name)
}

/// FNV-1a: stable between versions and machines, which the standard library's hasher is not.
fn digest(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_prefixed_and_cleaned() {
        assert_eq!(offered_name("meta-echo", "echo_meta"), "meta-echo-echo_meta");
        assert_eq!(offered_name("my server", "a/b.c"), "my-server-a-b-c");
        assert_eq!(offered_name("ß", "ä"), "---");
    }

    #[test]
    fn long_names_stay_different() {
        let long = "x".repeat(200);
        let (a, b) = (offered_name(&long, "a"), offered_name(&long, "b"));
        assert_eq!((a.len(), b.len()), (LONGEST, LONGEST));
        assert_ne!(a, b);
        assert_eq!(a, offered_name(&long, "a"));
    }

    #[test]
    fn name_belongs_to_one_tool_forever() {
        let mut names = Names::default();
        assert_eq!(names.of("a", "b-c").as_deref(), Some("a-b-c"));
        assert_eq!(names.of("a-b", "c").as_deref(), Some("a-b-c-2"));
        // Whichever of them is asked for, and whether or not the other one is there.
        assert_eq!(names.of("a-b", "c").as_deref(), Some("a-b-c-2"));
        assert_eq!(names.of("a", "b-c").as_deref(), Some("a-b-c"));
    }

    #[test]
    fn server_that_changes_its_tools_without_end_uses_up_only_its_own_names() {
        let mut names = Names::default();
        let unnamed = (0..=MOST_NAMES).filter(|n| names.of("s", &n.to_string()).is_none());
        assert_eq!(unnamed.collect::<Vec<_>>(), [MOST_NAMES]);
        assert!(names.of("other", "x").is_some());
    }

    #[test]
    fn collisions_are_numbered() {
        assert_eq!(distinct("a".into(), |_| false), "a");
        assert_eq!(distinct("a".into(), |name| ["a", "a-2"].contains(&name)), "a-3");
        let long = "y".repeat(LONGEST);
        assert_eq!(distinct(long.clone(), |name| name == long).len(), LONGEST);
    }
}
