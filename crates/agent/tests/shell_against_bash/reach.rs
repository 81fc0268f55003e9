//! The guard of Baton's home checked against bash itself.
//!
//! A project has links to a file in Baton's home, with names that variables have as values. Generated lines are run by
//! bash with the environment of Baton's own shells. A line that the guard calls harmless must not give any program a path
//! that leads into the home.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use baton_agent::tools::shell::{CommandEnvironment, LineContext, permission_request, with_reach};
use baton_core::policy::shell::Line;
use baton_core::policy::territory::{Standing, Territory};
use baton_protocol::permission::PermissionRequest;

use crate::generator::Random;
use crate::setting;

/// Lines of a run in the test suite.
const LINES: usize = 1_500;

/// Records the directory and the arguments of every program. `PATH` leads nowhere, so that none is found.
const PRELUDE: &str = r#"exec 9>&1 >/dev/null 2>/dev/null </dev/null
command_not_found_handle() { builtin printf '%s\0' "P$(builtin pwd -P)" "${@/#/A}" >&9; }
"#;

/// Values that variables of the environment, of Baton and of the shell have.
const LINKS: &[&str] =
    &["cat", "dumb", "noninteractive", "0", "1", "2", "sub", "a", "false", "explicit", "C.UTF-8", ":"];

#[rustfmt::skip]
const VARIABLES: &[&str] = &[
    "PAGER", "GIT_PAGER", "TERM", "DEBIAN_FRONTEND", "GIT_EDITOR", "GIT_CONFIG_COUNT", "GIT_CONFIG_VALUE_0", "SHELL", "SHLVL",
    "OPTIND", "PWD", "OLDPWD", "HOME", "BATON_HOME", "BLANKS", "STAR", "EMPTY", "X", "NOTHING", "UID", "PPID", "LINENO", "SECONDS",
    "IFS", "PS4", "PS1", "BASH", "HOSTTYPE", "DIRSTACK", "LC_ALL", "PATH", "BASHPID", "REPLY", "OPTERR",
];

const FORMS: &[&str] = &[
    "\"given/$V\"",
    "given/$V",
    "\"given/${V}\"",
    "given/${V}",
    "\"$V\"",
    "$V",
    "given/a$V",
    "$V/given/cat",
    "\"$V/given/cat\"",
    "--file=given/$V",
    "if=$V/x",
    "~/$V",
    "\"$V\"/*",
    "given/$V*",
    "@given/$V",
    "\"n=@given/$V;type=x\"",
    "host:given/$V,x",
];

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "a.txt", "sub/a.txt", "given/cat", "'given/cat'", "given/c?t", "gi*/cat", "gi*/*", "given/[c]at", "given/[!x]at", "given/c[a-b]t",
    "'given/c*'", "given/c\\*", "*", "*.txt", "sub/*", "s*/*", ".*", ".*/work/given/cat", "*/*", "~", "~/x", "'~/x'", "~+/given/cat",
    "~-/given/cat", "if=~+/given/cat", "x=~/state/token", "--file=~/state/token", "~/state/*", "~/st*/token", "-fgiven/cat", "-nREADME",
    "-fREADME", "README", "READM?", "./README", "sub/../README", "up/state/token", "up/../user/state/token", "../user/state/token",
    "../user/own/x", "deep/home/token", "deep/*", "deep/home", "d*/h*/t*", "\"\"", "''", "--", "-", "x", "README~", "a=~b",
];

const STEPS: &[&str] = &[
    "",
    "",
    "",
    "",
    "cd sub",
    "cd given",
    "cd deep",
    "cd ..",
    "cd -",
    "cd",
    "cd ~",
    "cd up",
    "cd deep/home",
    "cd nowhere",
    "printf -v X cat",
    "export X=cat",
    "read X",
    "X=cat :",
    "X=cat true",
    "pushd given",
    "popd",
    "pushd deep",
    "unset HOME",
    "HOME=given :",
    "HOME=given cd",
    "CDPATH=deep cd home",
    "builtin cd given",
    "command cd deep",
    "set -- cat",
    "shopt -s dotglob",
    "declare X=cat",
    "readonly X=cat",
    "let X=1",
    "getopts c X -c",
    "cd given && cd -",
    "export PAGER=x",
    "test -v X",
    "OLDPWD=given cd -",
];

/// A project beside a home, with links from one to the other.
struct Project {
    _directory: tempfile::TempDir,
    work: PathBuf,
    home: PathBuf,
    context: LineContext,
    environment: CommandEnvironment,
}

impl Project {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let (work, user) = (root.join("work"), root.join("user"));
        let (home, workspace) = (user.join("state"), user.join("state/session"));
        for new in ["given", "sub", "deep", "~", "$V"] {
            std::fs::create_dir_all(work.join(new)).unwrap();
        }
        std::fs::create_dir_all(&workspace).unwrap();
        std::fs::write(home.join("token"), "secret").unwrap();
        for file in ["a.txt", "sub/a.txt", "sub/-R"] {
            std::fs::write(work.join(file), "").unwrap();
        }
        for name in LINKS {
            symlink(home.join("token"), work.join("given").join(name)).unwrap();
            symlink(home.join("token"), work.join("given").join(format!("a{name}"))).unwrap();
        }
        for (target, link) in
            [("user", "work/up"), ("user/state", "work/deep/home"), ("user/state/token", "work/README")]
        {
            symlink(root.join(target), root.join(link)).unwrap();
        }
        symlink(home.join("token"), work.join("~/x")).unwrap();
        symlink(home.join("token"), work.join("sub/.hidden")).unwrap();
        let passed: [(&str, OsString); 9] = [
            ("PATH", "/nonexistent".into()),
            ("HOME", user.into()),
            ("BATON_HOME", home.clone().into()),
            ("BLANKS", "a given/cat".into()),
            ("STAR", "given/c*".into()),
            ("EMPTY", "".into()),
            ("PS1", "sub".into()),
            ("LC_ALL", "C.UTF-8".into()),
            ("OPTIND", "7".into()),
        ];
        let environment = CommandEnvironment::of_shells(passed.map(|(name, value)| (name.into(), value)));
        let context = LineContext::new(&work, &home, &workspace, &environment);
        Self { _directory: directory, work, home, context, environment }
    }

    /// Whether the guard asks about a line each time.
    fn is_guarded(&self, line: &str) -> bool {
        let request = with_reach(permission_request(&"c".into(), &self.work, line, ""), &self.context);
        let PermissionRequest::Shell { possible_paths, .. } = request else { panic!("{line}") };
        let (cwd, home) = (&self.work, Some(self.home.as_path()));
        let territory = Territory { cwd, home, workspace: None, engine_files: &[] };
        possible_paths.iter().any(|path| matches!(territory.read(Path::new(path)), Standing::EachTime(_)))
    }

    /// Runs a line, and returns the first path in the home that a program was given.
    fn reached(&self, line: &str) -> Option<PathBuf> {
        let mut bash = Command::new("/bin/bash");
        bash.args(["-c", &format!("{PRELUDE}{line}")]).current_dir(&self.work).env_clear();
        bash.envs(self.environment.in_directory(&self.work).variables()).stdin(Stdio::null());
        let output = bash.output().unwrap().stdout;
        let mut cwd = PathBuf::new();
        for entry in output.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
            let text = OsString::from_vec(entry[1..].to_vec());
            if entry[0] == b'P' {
                cwd = text.into();
                continue;
            }
            let text = text.into_string().unwrap();
            let values = text.split(['=', '@', ':', ',', ';']);
            let option = text.strip_prefix('-').and_then(|letters| letters.get(1..)).unwrap_or_default();
            let named = [text.as_str(), option].into_iter().chain(values).filter(|name| !name.is_empty());
            let real = named.filter_map(|name| cwd.join(name).canonicalize().ok());
            if let Some(path) = real.into_iter().find(|path| path.starts_with(&self.home)) {
                return Some(path);
            }
        }
        None
    }
}

fn line(random: &mut Random) -> String {
    let step = random.one(STEPS);
    let mut line =
        if step.is_empty() { String::new() } else { format!("{step}{}", random.one(&["; ", " && ", "\n"])) };
    line += random.one(&["rev", "cat", "head -n1"]);
    for _ in 0..1 + random.below(2) {
        let word = match random.below(3) {
            0 => random.one(WORDS).to_owned(),
            _ => {
                let (form, name) = (random.one(FORMS), random.one(VARIABLES));
                form.replace("$V", &format!("${name}")).replace("${V}", &format!("${{{name}}}"))
            }
        };
        line = format!("{line} {word}");
    }
    line
}

#[test]
fn harmless_lines_give_programs_no_path_into_the_home() {
    let project = Project::new();
    let mut random = Random::new(setting("BATON_FUZZ_SEED").unwrap_or(42));
    let (mut harmless, mut asked_rightly) = (0, 0);
    let rounds = setting("BATON_FUZZ_ROUNDS").map_or(LINES, |rounds| usize::try_from(rounds).unwrap());
    for _ in 0..rounds {
        let line = line(&mut random);
        assert!(matches!(Line::parse(&line), Line::Commands(_)), "{line:?} is opaque and shows nothing");
        let (is_guarded, reached) = (project.is_guarded(&line), project.reached(&line));
        assert!(is_guarded || reached.is_none(), "{line:?} reaches {reached:?} without a question");
        harmless += usize::from(!is_guarded);
        asked_rightly += usize::from(reached.is_some());
    }
    println!("{rounds} lines: {harmless} harmless, {asked_rightly} reach the home");
    assert!(harmless > rounds / 20, "too few lines are harmless to show anything: {harmless}");
    assert!(asked_rightly > rounds / 20, "too few lines reach the home to show anything: {asked_rightly}");
}
