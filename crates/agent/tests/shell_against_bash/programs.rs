//! The read-only programs of the catalogue checked on this machine.
//!
//! Bash does not know the effects of a program's options, so the programs are run with options from their own help, in
//! combinations that a grant for the name covers. None may change a file. By hand only, because programs differ between
//! machines; `strace -f -e trace=execve,creat,rename,unlink` also shows what they run.

use std::path::Path;
use std::process::{Command, Stdio};

use baton_core::policy::shell::Line;

use crate::generator::Random;
use crate::{files, scratch, setting};

/// Read-only programs with options. Those that only sleep or query the terminal are left out.
const READERS: &str = "ls cat head wc basename dirname realpath readlink id groups uname nproc printenv stat du df \
    cut tr nl seq cmp comm join paste fold fmt expand unexpand rev tac od expr cksum md5sum sha256sum b2sum grep jq which \
    uptime sort uniq diff tree file rg date find sed printf test";

const WORDS: [&str; 12] =
    ["a", "pwn", "out", "1", "'%s'", "-", "--", "'x y'", "+1", "--output=out", "-oout", "5p"];

/// Returns the options in a program's help.
fn options(program: &str) -> Vec<String> {
    let help = Command::new(program).arg("--help").stdin(Stdio::null()).output();
    let text = help.map(|help| [help.stdout, help.stderr].concat()).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let words = text.split(|c: char| c.is_whitespace() || ",[]|(){}<>'\"`".contains(c));
    let mut options: Vec<String> = words
        .filter(|word| word.starts_with('-') && word.len() > 1 && word.bytes().all(|b| b.is_ascii_graphic()))
        .map(|word| word.split('=').next().unwrap_or(word).to_owned())
        .collect();
    options.sort();
    options.dedup();
    options
}

fn run(directory: &Path, line: &str) {
    let mut bash = Command::new("bash");
    bash.args(["-c", line]).current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null());
    bash.stderr(Stdio::null()).status().unwrap();
}

#[test]
#[ignore = "runs programs of this machine with their own options; by hand"]
fn read_only_programs_change_no_file() {
    let rounds = setting("BATON_FUZZ_ROUNDS").unwrap_or(200);
    let mut random = Random::new(setting("BATON_FUZZ_SEED").unwrap_or(42));
    let mut runs = 0;
    for program in READERS.split_whitespace() {
        let options = options(program);
        for _ in 0..rounds {
            let mut line = program.to_owned();
            for _ in 0..1 + random.below(4) {
                let option = options.get(random.below(options.len().max(1)));
                let word = match (random.below(3), option) {
                    (0, _) | (_, None) => random.one(&WORDS).to_owned(),
                    (1, Some(option)) if option.starts_with("--") => {
                        format!("{option}={}", random.one(&["out", "a", "1"]))
                    }
                    (_, Some(option)) => option.clone(),
                };
                line = format!("{line} {word}");
            }
            if Line::parse(&line).is_covered_by(&[program]) {
                let directory = scratch();
                let before = files(directory.path());
                run(directory.path(), &line);
                assert_eq!(files(directory.path()), before, "{line:?}");
                runs += 1;
            }
        }
    }
    println!("{runs} runs");
}
