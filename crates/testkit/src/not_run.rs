//! Tests that cannot run on this machine. Such a test fails, unless `tests/not-run.txt` lists it for the platform. One that
//! is listed is left out and recorded, and the summary of `scripts/test` names it.

use std::path::Path;

use rustix::process::geteuid;

/// The tests that may be left out.
const LIST: &str = include_str!("../../../tests/not-run.txt");

/// The directory for a file with the reason for each test that was left out, named after the test.
const RECORDS: &str = "BATON_NOT_RUN";

/// Leaves out the test that calls it, with the reason, or fails: `return cannot_run!("strace is not installed")`.
#[macro_export]
macro_rules! cannot_run {
    ($why:expr) => {{
        fn here() {}
        $crate::not_run::leave_out(std::any::type_name_of_val(&here), $why.as_ref())
    }};
}

/// Records a test as left out. `place` is the path of a function in the test.
///
/// # Panics
/// If the list does not have the test for this platform.
#[expect(clippy::print_stderr, reason = "the output of the test says that it did nothing")]
pub fn leave_out(place: &str, why: &str) {
    let platform = if geteuid().is_root() { "root" } else { "user" };
    let test = test_of(place);
    if !is_listed(LIST, platform, test) {
        panic!(
            "{test} cannot run: {why}. Provide that, or list the test for the platform {platform:?} in tests/not-run.txt if such \
             machines cannot"
        );
    }
    eprintln!("not run: {test}: {why}");
    if let Some(directory) = std::env::var_os(RECORDS) {
        std::fs::write(Path::new(&directory).join(test), why).expect("the record is written");
    }
}

/// The name of the test function around a function: the last part that is neither that function nor a closure.
fn test_of(place: &str) -> &str {
    let outer = place.rsplit("::").skip(1).find(|part| *part != "{{closure}}");
    outer.unwrap_or(place)
}

fn is_listed(list: &str, platform: &str, test: &str) -> bool {
    let entries = list.lines().map(|line| line.split_whitespace());
    entries.into_iter().any(|mut words| {
        words.next().is_some_and(|word| [platform, "any"].contains(&word)) && words.next() == Some(test)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "# remark\n\nuser  mounts   a file system\nany   units\n";

    #[test]
    fn tests_are_listed_for_each_platform() {
        assert!(is_listed(LISTED, "user", "mounts"));
        assert!(is_listed(LISTED, "root", "units") && is_listed(LISTED, "user", "units"));
        assert!(!is_listed(LISTED, "root", "mounts"));
        assert!(!is_listed(LISTED, "user", "mount"));
        assert!(!is_listed(LISTED, "#", "mounts"));
    }

    #[test]
    fn listed_tests_exist() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let sources = sources(crates);
        let names = LIST
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_whitespace().nth(1));
        // Those with a colon are names of groups that are not in Rust.
        let missing = |name: &&str| !name.contains(':') && !sources.contains(&format!("fn {name}("));
        assert_eq!(names.filter(missing).collect::<Vec<_>>(), Vec::<&str>::new());
    }

    /// All Rust sources below a directory.
    fn sources(directory: &Path) -> String {
        let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let read = |path: std::path::PathBuf| match path.extension() {
            _ if path.is_dir() => sources(&path),
            Some(extension) if extension == "rs" => std::fs::read_to_string(&path).unwrap(),
            _ => String::new(),
        };
        entries.map(read).collect()
    }

    #[test]
    #[should_panic(expected = "unlisted_test_that_cannot_run_fails cannot run: a reason. Provide that")]
    fn unlisted_test_that_cannot_run_fails() {
        cannot_run!("a reason");
    }

    #[tokio::test]
    #[should_panic(expected = "unlisted_asynchronous_test_that_cannot_run_fails cannot run")]
    async fn unlisted_asynchronous_test_that_cannot_run_fails() {
        cannot_run!(format!("a {}", "reason"));
    }
}
