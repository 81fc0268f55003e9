//! Searches: commands that read files which their words do not name.

/// How a command reads directories.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    /// Not at all, or without showing contents of files.
    No,
    /// Recursively, without following links.
    Below,
    /// Recursively, following links; or files that the line does not name.
    ThroughLinks,
}

impl Search {
    /// Classifies a program with these arguments.
    pub(super) fn of(program: &str, rest: &[String]) -> Self {
        let has = |letters: &[char], long: &[&str]| {
            rest.iter().any(|word| match word.strip_prefix('-') {
                Some(option) if option.starts_with('-') => long.iter().any(|name| word.starts_with(name)),
                Some(option) => option.contains(letters),
                None => false,
            })
        };
        let (below, through_links) = match program {
            "grep" => (has(&['r', 'd'], &["--rec", "--di"]), has(&['R'], &["--der"])),
            "rg" => (true, has(&['L'], &["--follow"])),
            // A program of jq can import files from any directory, and can itself come from a file.
            "jq" => {
                let loads = |word: &String| word.contains("import") || word.contains("include");
                (false, rest.iter().any(loads) || has(&['f', 'L'], &["--from-file", "--library-path"]))
            }
            _ => (false, false),
        };
        match (below, through_links) {
            (_, true) => Self::ThroughLinks,
            (true, false) => Self::Below,
            (false, false) => Self::No,
        }
    }
}
