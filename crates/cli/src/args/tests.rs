//! Laws of the command line: every command is documented, has an example, and knows `--json`.

use clap::CommandFactory;

use super::*;

#[test]
fn flags_are_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn page_of_the_command_line_names_every_command() {
    let page = include_str!("../../../../docs/cli.md");
    let names = |command: &clap::Command| -> Vec<String> {
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let names = shown.map(|command| command.get_name().to_owned());
        names.filter(|name| name != "help").collect()
    };
    let command = Cli::command();
    for name in names(&command) {
        let mentions = |line: &&str| line.starts_with(&format!("| `baton {name}"));
        let row = page.lines().find(mentions).unwrap_or_else(|| panic!("no row for baton {name}"));
        for below in command.find_subcommand(&name).map(names).unwrap_or_default() {
            let words = row.split(['`', ' ']).collect::<Vec<_>>();
            assert!(words.contains(&&*below), "baton {name} {below} is not in: {row}");
        }
    }
}

#[test]
fn flags_of_every_sdk_are_accepted() {
    for line in [
        "--headless --no-auto-update --log-level info --auth-token-env COPILOT_SDK_AUTH_TOKEN --no-auto-login --stdio",
        "--headless --no-auto-update --log-level info --stdio",
        "--headless --no-auto-update --log-level debug --session-idle-timeout 30 --remote --port 4321",
        "--server --no-auto-update --log-level info --port 0",
        "--yolo --headless --no-auto-update --log-level all --stdio",
        "--headless --no-auto-update --log-level info --stdio --plugin-dir a --plugin-dir ./b",
    ] {
        let cli = Cli::try_parse_from(std::iter::once("baton").chain(line.split(' '))).unwrap();
        assert!(cli.sdk.are_used(), "{line}");
    }
}

#[test]
fn global_options_are_the_last_group_of_every_help() {
    fn check(command: &mut clap::Command) {
        let help = command.render_long_help().to_string();
        let headings = help.lines().filter(|line| line.ends_with(':') && !line.starts_with(' '));
        let options: Vec<&str> = headings.filter(|line| line.to_lowercase().contains("options")).collect();
        assert_eq!(options.last(), Some(&"Global options:"), "{help}");
        let known = help.find("Global options:").unwrap_or(0);
        assert!(help.find("\nOptions:").is_none_or(|own| own < known), "{help}");
        command.get_subcommands_mut().filter(|command| command.get_name() != "help").for_each(check);
    }
    let mut command = Cli::command();
    command.build();
    check(&mut command);
}

#[test]
fn short_help_leaves_global_options_to_the_long_one() {
    fn check(command: &mut clap::Command) {
        let (short, long) = (command.render_help().to_string(), command.render_long_help().to_string());
        assert!(!short.contains("--log-format") && !short.contains("Global options"), "{short}");
        assert!(long.contains("--log-format") && short.contains("see more with '--help'"), "{short}");
        command.get_subcommands_mut().filter(|command| command.get_name() != "help").for_each(check);
    }
    let mut command = Cli::command();
    command.build();
    check(&mut command);
}

#[test]
fn overview_names_every_command_on_one_screen() {
    // A row is left for the prompt of the shell.
    assert!(OVERVIEW.lines().count() < 24 && OVERVIEW.lines().all(|line| line.chars().count() <= 80));
    let (_, list) = OVERVIEW.split_once("Commands").unwrap();
    let (list, _) = list.split_once("\n\n").unwrap();
    for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name();
        assert!(name == "help" || list.split_whitespace().any(|word| word == name), "{name} is missing");
    }
}

#[test]
fn commands_that_list_need_no_subcommand() {
    for name in ["sessions", "mcp", "skills", "plugins", "people", "grants", "service"] {
        Cli::try_parse_from(["baton", name]).unwrap();
        Cli::try_parse_from(["baton", name, "--home", "/x"]).unwrap();
    }
}

#[test]
fn command_without_a_subcommand_takes_the_flags_of_the_default_one() {
    let parsed = |line: &str| Cli::try_parse_from(line.split(' ')).map(|cli| format!("{:?}", cli.command));
    for (bare, whole) in [
        ("baton sessions --json --here --limit 3", "baton sessions list --json --here --limit 3"),
        ("baton mcp --json --session 3f2a", "baton mcp list --json --session 3f2a"),
        ("baton skills --json", "baton skills list --json"),
        ("baton plugins --json", "baton plugins list --json"),
        ("baton people --json", "baton people list --json"),
        ("baton grants --json --session 3f2a", "baton grants list --json --session 3f2a"),
        ("baton service --json --system", "baton service status --json --system"),
        ("baton sessions", "baton sessions list"),
    ] {
        assert_eq!(parsed(bare).unwrap(), parsed(whole).unwrap(), "{bare}");
    }
}

#[test]
fn flag_before_a_subcommand_is_refused_unless_it_is_global() {
    let parse = |line: &str| Cli::try_parse_from(line.split(' '));
    let error = parse("baton sessions --json show 3f2a").unwrap_err().to_string();
    assert!(error.contains("write --json after `show`"), "{error}");
    assert!(parse("baton service --system install").is_err());
    parse("baton sessions --home /x list --json").unwrap();
}

/// Calls a function with every command that does something itself, and the words to call it with.
fn for_each_command(command: &clap::Command, path: &str, check: &mut dyn FnMut(&str, &clap::Command)) {
    let mut has_commands = false;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        has_commands = true;
        for_each_command(below, &format!("{path} {}", below.get_name()), check);
    }
    if !has_commands {
        check(path, command);
    }
}

#[test]
fn every_command_has_an_example() {
    for_each_command(&Cli::command(), "baton", &mut |path, command| {
        let help = command.clone().render_long_help().to_string();
        let (_, examples) = help.split_once("\nExample").unwrap_or_else(|| panic!("no example: {path}"));
        assert!(examples.lines().any(|line| line.contains(path)), "no example of {path}: {examples}");
    });
}

#[test]
fn notes_of_help_fit_the_terminal() {
    fn check(command: &clap::Command) {
        let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines: Vec<&str> = notes.lines().collect();
        for line in lines.iter().filter(|line| line.starts_with(' ')) {
            assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
        }
        // Prose that is broken here would be broken again at the width of the terminal.
        let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
        for pair in lines.windows(2) {
            let is_broken = is_prose(pair[0]) && is_prose(pair[1]);
            assert!(!is_broken, "{}: join {pair:?}", command.get_name());
        }
        command.get_subcommands().for_each(check);
    }
    check(&Cli::command());
}

#[test]
fn commands_that_print_results_or_change_something_know_json() {
    // They print events, a script or a page; or they serve until they are stopped.
    let without = ["serve", "record", "replay", "sandbox run", "sessions export", "completions", "man"];
    for_each_command(&Cli::command(), "baton", &mut |path, command| {
        let is_known = command.get_arguments().any(|flag| flag.get_long() == Some("json"));
        let is_exempt = without.iter().any(|name| path == format!("baton {name}"));
        assert!(is_known != is_exempt, "{path}: --json is {is_known}");
    });
}

#[test]
fn one_of_the_three_ways_to_name_grants_is_needed() {
    let parse = |line: &str| Cli::try_parse_from(format!("baton grants revoke {line}").trim().split(' '));
    for line in ["3f2a --json", "--session 3f2a", "--location /srv --json"] {
        parse(line).unwrap();
    }
    for line in ["", "--json", "3f2a --session 3f2a", "--session 3f2a --location /srv"] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn help_of_yes_says_that_pending_calls_are_approved_too() {
    let page = include_str!("../../../../docs/cli.md");
    assert!(page.contains("`--yes` with `--continue` also approves"), "{page}");
    let command = Cli::command();
    let mut flags = command.find_subcommand("run").unwrap().get_arguments();
    let help = flags.find(|flag| flag.get_long() == Some("yes")).unwrap().get_help().unwrap().to_string();
    assert!(help.contains("with --continue"), "{help}");
}

#[test]
fn unknown_flag_is_named_in_the_error() {
    let error = Cli::try_parse_from(["baton", "--headless", "--nonexistent-flag-for-testing"]).unwrap_err();
    assert!(error.to_string().contains("--nonexistent-flag-for-testing"));
}
