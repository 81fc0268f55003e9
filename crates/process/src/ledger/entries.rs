//! The content of a ledger, and its lines in the file.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::Instance;
use crate::leftovers::Leftover;
use crate::table::ProcessIdentity;

/// The content of a ledger.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Entries {
    pub(crate) tags: BTreeSet<String>,
    pub(super) groups: BTreeMap<(i32, u64), Group>,
    /// Programs that were about to start, by number, with the time before their start.
    pub(super) starts: BTreeMap<u64, u64>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) seen: u64,
    pub(super) members: Vec<(i32, u64)>,
}

/// One line of the file. The first line is the owner instead.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Line {
    Tag(String),
    EndedTag(String),
    /// A program is about to start; `EndedStart` follows its `Group`, or its failure.
    Starting {
        number: u64,
        since: u64,
    },
    EndedStart {
        number: u64,
    },
    Group {
        leader: (i32, u64),
        seen: u64,
        members: Vec<(i32, u64)>,
    },
    EndedGroup {
        leader: (i32, u64),
    },
}

pub(super) fn pair(process: ProcessIdentity) -> (i32, u64) {
    (process.pid, process.start_time)
}

pub(super) fn identity((pid, start_time): (i32, u64)) -> ProcessIdentity {
    ProcessIdentity { pid, start_time }
}

impl Entries {
    /// Parses a ledger: its owner and its entries. An incomplete last line is ignored.
    pub(crate) fn parse(text: &str) -> Option<(Instance, Self)> {
        let mut lines = text.lines();
        let owner = serde_json::from_str(lines.next()?).ok()?;
        let mut entries = Self::default();
        for line in lines.filter(|line| !line.is_empty()) {
            match serde_json::from_str(line) {
                Ok(line) => entries.apply(&line),
                // Earlier format: bare tags.
                Err(_) if line.ends_with('/') => drop(entries.tags.insert(line.to_owned())),
                Err(_) => {}
            }
        }
        Some((owner, entries))
    }

    pub(super) fn apply(&mut self, line: &Line) {
        match line {
            Line::Tag(tag) => drop(self.tags.insert(tag.clone())),
            Line::EndedTag(tag) => drop(self.tags.remove(tag)),
            Line::Starting { number, since } => drop(self.starts.insert(*number, *since)),
            Line::EndedStart { number } => drop(self.starts.remove(number)),
            Line::Group { leader, seen, members } => {
                self.groups.insert(*leader, Group { seen: *seen, members: members.clone() });
            }
            Line::EndedGroup { leader } => drop(self.groups.remove(leader)),
        }
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        let tags = self.tags.iter().cloned().map(Line::Tag);
        let groups = self.groups.iter().map(|(leader, group)| Line::Group {
            leader: *leader,
            seen: group.seen,
            members: group.members.clone(),
        });
        let starts =
            self.starts.iter().map(|(number, since)| Line::Starting { number: *number, since: *since });
        tags.chain(starts).chain(groups).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.tags.len() + self.groups.len() + self.starts.len()
    }

    /// Returns the time since which a program may have started that is not recorded yet; none if there is no such program.
    pub(crate) fn starting_since(&self) -> Option<u64> {
        self.starts.values().min().copied()
    }

    pub(crate) fn leftovers(&self) -> Vec<Leftover> {
        let leftover = |(leader, group): (&(i32, u64), &Group)| Leftover {
            leader: identity(*leader),
            seen: group.seen,
            members: group.members.iter().copied().map(identity).collect(),
        };
        self.groups.iter().map(leftover).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_line_and_bare_tags_are_accepted() {
        let owner = Instance::current();
        let text = format!("{}\nold/\n{{\"tag\":\"new/\"}}\n{{\"gro", serde_json::to_string(&owner).unwrap());
        let (read, entries) = Entries::parse(&text).unwrap();
        assert_eq!((read, entries.tags.len(), entries.groups.len()), (owner, 2, 0));
        assert_eq!(Entries::parse(""), None);
        assert_eq!(Entries::parse("nonsense\n"), None);
    }
}
