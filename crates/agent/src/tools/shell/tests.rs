//! Real commands and processes. Each test has a unique marker in its command lines, by which processes are found
//! afterwards.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_process::{Ledger, ProcessIdentity, end_tagged};
use baton_protocol::permission::PermissionRequest;
use baton_protocol::tool::{ResultType, ToolResult};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::*;
use crate::tools::testing::Bench;
use crate::tools::{Prepared, ToolContext, interrupted, spill};

fn marker() -> String {
    format!("marker-{}", Uuid::new_v4().simple())
}

/// Returns the command lines of living processes that contain `marker`.
fn alive(marker: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(marker))
        .collect()
}

/// Polls until `done`, for at most ten seconds: the end of a process that is not a child sends no event.
async fn until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..1000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("timed out waiting until {what}");
}

async fn bash(bench: &Bench, command: &str) -> String {
    bench.run(&Bash, json!({"command": command, "description": "test"})).await.text_result_for_llm
}

/// Runs `command` in the background of the test, and waits until it has printed "ready".
async fn started(context: &ToolContext, arguments: Value) -> tokio::task::JoinHandle<ToolResult> {
    let ready = Arc::new(tokio::sync::Notify::new());
    let (mut context, notify) = (context.clone(), Arc::clone(&ready));
    context.progress = Arc::new(move |text| {
        if text.contains("ready") {
            notify.notify_one();
        }
    });
    let run = tokio::spawn(async move { crate::tools::Tool::run(&Bash, &context, &arguments.into()).await });
    ready.notified().await;
    run
}

#[tokio::test]
async fn results_have_the_official_wording() {
    let bench = Bench::new();
    for (command, expected) in [
        ("echo hello && echo world", "hello\nworld\n<exited with exit code 0>"),
        ("echo error_msg >&2; sleep 0.1; echo ok", "error_msg\nok\n<exited with exit code 0>"),
        ("printf 'no newline'; exit 3", "no newline\n<exited with exit code 3>"),
        ("true", "<exited with exit code 0>"),
        ("kill -9 $$", "<exited with exit code 137>"),
        ("echo \"$(basename \"$PWD\")\"", "work\n<exited with exit code 0>"),
    ] {
        assert_eq!(bash(&bench, command).await, expected, "{command}");
    }
    let result =
        bench.run(&Bash, json!({"command": "echo hi; exit 2", "mode": "sync", "initial_wait": 5})).await;
    let contents: Value = result.contents.unwrap().parse().unwrap();
    assert_eq!(
        contents,
        json!([{ "type": "terminal", "text": "hi\n", "exitCode": 2, "cwd": bench.context.cwd }])
    );
    assert_eq!(bench.ledger.running(), []);
}

#[tokio::test]
async fn commands_have_no_terminal_and_only_the_given_environment() {
    let bench = Bench::new();
    let output = bash(
        &bench,
        "read line; echo \"read: $?\"; tty; (: </dev/tty) 2>&1 | wc -l
         echo $PAGER $GIT_TERMINAL_PROMPT $TERM; env | grep -c CARGO",
    )
    .await;
    assert_eq!(output, "read: 1\nnot a tty\n1\ncat 0 dumb\n0\n<exited with exit code 1>");
}

#[tokio::test]
async fn command_names_cannot_be_redefined() {
    let bench = Bench::new();
    std::fs::write(bench.context.cwd.join("start"), "ls() { echo from a file; }").unwrap();
    for (name, value) in [
        ("BASH_FUNC_ls%%", "() { echo from the environment; }"),
        ("BASH_ENV", bench.context.cwd.join("start").to_str().unwrap()),
        ("PATH", ".::relative:/usr/bin:/bin"),
    ] {
        let settings = ShellSettings {
            environment: CommandEnvironment::of_shells([
                ("PATH".into(), "/usr/bin:/bin".into()),
                (name.into(), value.into()),
            ]),
            ledger: Ledger::default(),
            tasks: TaskTracker::new(),
        };
        let shells = Shells::new(settings);
        let wanted = super::registry::NewCommand {
            command: "ls; echo $PATH".into(),
            id: None,
            inside: None,
            interactive: false,
            progress: None,
        };
        let shell = shells.start(&bench.context, wanted).ok().unwrap();
        shell.ended().await;
        assert_eq!(shell.output.take(), "start\n/usr/bin:/bin\n", "{name}");
    }
    bash(&bench, "ls() { echo redefined; }; alias ls=false; PATH=/nowhere").await;
    assert_eq!(
        bash(&bench, "ls").await,
        "start\n<exited with exit code 0>",
        "no state is left of an earlier line"
    );
}

#[tokio::test]
async fn git_status_does_not_run_fsmonitor() {
    let bench = Bench::new();
    bash(&bench, "git init -q . && git config core.fsmonitor 'touch monitored;' && touch a && git add a")
        .await;
    let output = bash(&bench, "git status --short").await;
    assert!(output.starts_with("A  a"), "{output}");
    assert!(!bench.context.cwd.join("monitored").exists());
}

#[tokio::test]
async fn git_does_not_run_filters_of_a_bare_repository() {
    let bench = Bench::new();
    let setup = "git init -q repo && git -C repo config filter.x.clean 'touch cleaned; cat' \
        && cp -r repo/.git/. . && rm -r repo && git config --file config core.bare false \
        && git config --file config core.worktree . && echo '* filter=x' > .gitattributes && echo a > a \
        && GIT_CONFIG_COUNT=0 git --git-dir=. --work-tree=. add a && rm -f cleaned && echo b > a";
    bash(&bench, setup).await;
    bash(&bench, "git status --short").await;
    assert!(!bench.context.cwd.join("cleaned").exists());
}

#[tokio::test]
async fn request_contains_the_command() {
    let bench = Bench::new();
    let Prepared::Needs(PermissionRequest::Shell { full_command_text, intention, commands, .. }) =
        bench.prepare(&Bash, json!({"command": "git status", "description": "Look"})).await
    else {
        panic!("running needs permission")
    };
    assert_eq!((full_command_text.as_str(), intention.as_str()), ("git status", "Look"));
    assert_eq!(commands[0].identifier, "git status");
}

#[tokio::test]
async fn invalid_arguments_are_explained() {
    let mut bench = Bench::new();
    for (arguments, hint) in [
        (json!({}), "missing field `command`"),
        (json!({"command": "  "}), "command: must not be empty"),
        (json!({"command": "ls", "mode": "sideways"}), "mode: "),
        (json!({"command": "ls", "initial_wait": -1}), "initial_wait: "),
        (json!({"command": "ls", "shellId": ""}), "shellId: "),
        (json!({"command": "echo \u{0}"}), "could not be started"),
        (json!({"command": "x".repeat(200_000)}), "200000 bytes"),
    ] {
        let result = bench.run(&Bash, arguments).await;
        assert_eq!(result.result_type, ResultType::Failure);
        assert!(result.text_result_for_llm.contains(hint), "{}", result.text_result_for_llm);
    }
    for tool in [&ReadBash as &dyn crate::tools::Tool, &StopBash, &WriteBash] {
        let output =
            bench.run(tool, json!({"shellId": 7, "delay": 0, "input": "x"})).await.text_result_for_llm;
        assert_eq!(output, "There is no shell with shellId \"7\". There are none.");
    }
    bench.context.cwd = "/no/such/place".into();
    assert!(bash(&bench, "ls").await.contains("the working directory /no/such/place does not exist"));
}

#[tokio::test]
async fn long_command_continues_in_the_background() {
    let bench = Bench::new();
    let mark = marker();
    let command = format!("echo begun; exec -a {mark} sleep 1000");
    let output = bench.run(&Bash, json!({"command": command, "initial_wait": 0.3, "shellId": "long"})).await;
    assert_eq!(
        output.text_result_for_llm,
        "begun\n<the command is still running with shellId: long. Use read_bash to read more, stop_bash to \
         end it>"
    );
    let again = bench.run(&Bash, json!({"command": "ls", "shellId": "long"})).await.text_result_for_llm;
    assert!(again.contains("still running"), "{again}");
    let listed = bench.run(&ListBash, json!({})).await.text_result_for_llm;
    assert!(listed.starts_with("shellId: long, running, pid ") && listed.contains(&mark), "{listed}");
    let read = bench.run(&ReadBash, json!({"shellId": "long", "delay": 0})).await.text_result_for_llm;
    assert!(read.starts_with("<the command is still running"), "read output is not shown again: {read}");

    assert_eq!(bench.run(&StopBash, json!({"shellId": "long"})).await.text_result_for_llm, "<stopped>");
    assert_eq!(alive(&mark), Vec::<String>::new());
    assert_eq!(bench.ledger.running(), []);
    assert_eq!(bench.run(&ListBash, json!(null)).await.text_result_for_llm, "There are no shells.");
}

#[tokio::test]
async fn input_reaches_an_async_command() {
    let bench = Bench::new();
    let output = bench.run(&Bash, json!({"command": "cat", "mode": "async"})).await.text_result_for_llm;
    assert!(output.contains("shellId: 0"), "{output}");
    let Prepared::Needs(PermissionRequest::Shell {
        full_command_text,
        can_offer_session_approval,
        commands,
        input_to,
        ..
    }) = bench.prepare(&WriteBash, json!({"shellId": "0", "input": "x"})).await
    else {
        panic!("typing needs permission")
    };
    assert_eq!((full_command_text.as_str(), can_offer_session_approval), ("x", false));
    assert_eq!((commands.len(), input_to.as_deref()), (0, Some("0")), "typed text is no command");

    let typed = typed(&bench, json!({"shellId": 0, "input": "hello{enter}", "delay": 0.3})).await;
    assert!(typed.starts_with("hello\n<the command is still running"));
    let ended = self::typed(&bench, json!({"shellId": 0, "input": "bye{ctrl+d}", "delay": 20})).await;
    assert_eq!(ended, "bye\n<exited with exit code 0>");

    // Where tests run with SIGINT ignored, as in the background of a script, children inherit that. A handler, as the
    // server has one, resets it.
    let _handler = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt()).unwrap();
    let command = "trap 'exit 130' INT; echo up; while :; do sleep 0.1; done";
    bench.run(&Bash, json!({"command": command, "mode": "background", "shellId": "s"})).await;
    while !bench
        .run(&ReadBash, json!({"shellId": "s", "delay": 0.1}))
        .await
        .text_result_for_llm
        .contains("up")
    {}
    let interrupted = self::typed(&bench, json!({"shellId": "s", "input": "{ctrl+c}", "delay": 20})).await;
    assert_eq!(interrupted, "<exited with exit code 130>");

    bench.run(&Bash, json!({"command": "sleep 1000", "initial_wait": 0, "shellId": "q"})).await;
    let refused = self::typed(&bench, json!({"shellId": "q", "input": "x"})).await;
    assert!(refused.contains("takes no more input"), "{refused}");
}

/// Prepares a call of `write_bash`, as for a permission request, and runs it.
async fn typed(bench: &Bench, arguments: serde_json::Value) -> String {
    bench.prepare(&WriteBash, arguments.clone()).await;
    bench.run(&WriteBash, arguments).await.text_result_for_llm
}

#[tokio::test]
async fn typing_reaches_only_the_command_that_was_approved() {
    let bench = Bench::new();
    let start = |command: &str| json!({"command": command, "mode": "async", "shellId": "x"});
    let typing = json!({"shellId": "x", "input": "rm -rf .{enter}", "delay": 0});
    bench.run(&Bash, start("cat")).await;
    bench.prepare(&WriteBash, typing.clone()).await;
    bench.run(&StopBash, json!({"shellId": "x"})).await;
    bench.run(&Bash, start("bash")).await;
    let refused = bench.run(&WriteBash, typing.clone()).await.text_result_for_llm;
    assert!(refused.contains("was approved for has ended"), "{refused}");
    let untold = Bench::new();
    untold.run(&Bash, start("cat")).await;
    let refused = untold.run(&WriteBash, typing).await.text_result_for_llm;
    assert!(refused.contains("was approved for has ended"), "after a restart: {refused}");
}

#[tokio::test]
async fn cancelled_call_leaves_no_process() {
    for tree in [
        // Plain, and with children.
        "exec -a MARK sleep 1000",
        "(exec -a MARK sleep 1000) & (exec -a MARK sleep 1000) & echo ready; wait",
        // Ignoring signals.
        "trap '' TERM INT HUP; (exec -a MARK sleep 1000) & echo ready; while :; do sleep 0.05; done # MARK",
        // Stopped.
        "(exec -a MARK sleep 1000) & kill -STOP $!; echo ready; wait",
        // Daemons: another session, another parent, the pipe held open, ignoring signals.
        "(setsid bash -c 'trap \"\" TERM; exec -a MARK sleep 1000' &) ; echo ready; sleep 1000 # MARK",
        "(setsid bash -c '(exec -a MARK sleep 1000) & exit' &); echo ready; sleep 1000 # MARK",
        // Another session, no environment, no pipe; its parent is alive.
        "env -i setsid bash -c 'exec -a MARK sleep 1000' >/dev/null 2>&1 & echo ready; sleep 1000 # MARK",
        // Being started at the moment of the cancel.
        "for i in $(seq 40); do env -i setsid bash -c 'exec -a MARK sleep 1000' >/dev/null 2>&1 & done; wait",
        // Many.
        "for i in $(seq 20); do (trap '' TERM; exec -a MARK sleep 1000) & done; echo ready; wait",
        // Many that keep starting children.
        "for i in $(seq 10); do (while :; do (exec -a MARK sleep 0.2); done) & done; echo ready; wait # MARK",
    ] {
        let bench = Bench::new();
        let mark = marker();
        let command = format!("echo ready; {}", tree.replace("MARK", &mark));
        let run = started(&bench.context, json!({"command": command, "initial_wait": 60})).await;
        until("it runs", || !alive(&mark).is_empty()).await;

        let begun = Instant::now();
        bench.context.cancel.cancel();
        assert_eq!(run.await.unwrap(), interrupted(), "{tree}");
        // Far from the minute that the call would wait by itself, however busy the machine is.
        assert!(begun.elapsed() < Duration::from_secs(30), "{tree}: {:?}", begun.elapsed());
        assert_eq!(alive(&mark), Vec::<String>::new(), "{tree}");
        assert_eq!(bench.ledger.running(), [], "{tree}");
    }
}

#[tokio::test]
async fn cancel_ends_a_command_in_the_background() {
    let bench = Bench::new();
    let mark = marker();
    bench.run(&Bash, json!({"command": format!("exec -a {mark} sleep 1000"), "initial_wait": 0.1})).await;
    until("it runs", || !alive(&mark).is_empty()).await;
    bench.context.cancel.cancel();
    until("it has gone", || alive(&mark).is_empty() && bench.ledger.running().is_empty()).await;
    assert_eq!(
        bash(&bench, "echo no").await,
        crate::tools::INTERRUPTED,
        "a cancelled call starts no command"
    );
}

#[tokio::test]
async fn dropped_call_leaves_no_process() {
    let bench = Bench::new();
    let mark = marker();
    let run = started(
        &bench.context,
        json!({"command": format!("echo ready; exec -a {mark} sleep 1000"), "initial_wait": 60}),
    )
    .await;
    until("it runs", || !alive(&mark).is_empty()).await;
    run.abort();
    until("it has gone", || alive(&mark).is_empty() && bench.ledger.running().is_empty()).await;
}

#[tokio::test]
async fn processes_left_by_a_command_are_reported_and_can_be_stopped() {
    for leftover in [
        // With the pipe, and without.
        "(exec -a MARK sleep 1000) &",
        "(exec -a MARK sleep 1000) >/dev/null 2>&1 &",
        "(setsid bash -c 'exec -a MARK sleep 1000' &);",
    ] {
        let bench = Bench::new();
        let mark = marker();
        let begun = Instant::now();
        let output = bash(&bench, &format!("{} echo done", leftover.replace("MARK", &mark))).await;
        assert!(begun.elapsed() < Duration::from_secs(30), "{leftover}");
        let expected = "done\n<exited with exit code 0>\n<processes that it started are still running with \
                        shellId: 0. Use stop_bash to end them>";
        assert_eq!(output, expected, "{leftover}");
        until("it runs", || !alive(&mark).is_empty()).await;
        let stopped = bench.run(&StopBash, json!({"shellId": "0"})).await.text_result_for_llm;
        assert_eq!(stopped, "<exited with exit code 0>", "{leftover}");
        assert_eq!(alive(&mark), Vec::<String>::new(), "{leftover}");
        assert_eq!(bench.ledger.running(), [], "{leftover}");
    }
}

#[tokio::test]
async fn end_of_a_session_ends_its_processes() {
    for graceful in [true, false] {
        let bench = Bench::new();
        let mark = marker();
        for command in [
            format!("exec -a {mark} sleep 1000"),
            format!("trap '' TERM; (exec -a {mark} sleep 1000) & wait"),
            // Found by its tag only.
            format!("(setsid bash -c 'exec -a {mark} sleep 1000' >/dev/null 2>&1 </dev/null &)"),
        ] {
            bench.run(&Bash, json!({"command": command, "mode": "async"})).await;
        }
        until("all run", || alive(&mark).len() >= 3).await;
        if graceful {
            bench.context.services.shells.end_all().await;
            assert_eq!(alive(&mark), Vec::<String>::new());
            assert_eq!(bench.ledger.running(), []);
        } else {
            let tag = bench.context.services.shells.tag().to_owned();
            drop(bench);
            // A killed process is visible until the kernel has released its resources.
            until("all have gone", || alive(&mark).is_empty()).await;
            end_tagged(&tag);
        }
    }
}

#[tokio::test]
async fn no_zombie_is_left() {
    let bench = Bench::new();
    let output = bash(&bench, "echo $$").await;
    let pid = output.lines().next().unwrap();
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{pid} was not waited for");
}

#[tokio::test]
async fn running_command_is_in_the_ledger() {
    let bench = Bench::new();
    bench.run(&Bash, json!({"command": "sleep 1000", "mode": "async"})).await;
    let [leader] = bench.ledger.running()[..] else { panic!("{:?}", bench.ledger.running()) };
    assert!(leader.start_time > 0 && leader == ProcessIdentity::of(leader.pid));
    bench.run(&StopBash, json!({"shellId": "0"})).await;
    assert_eq!(bench.ledger.running(), []);
}

#[tokio::test]
async fn large_output_is_cut_and_stored_in_a_file() {
    let bench = Bench::new();
    let output = bash(&bench, "echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last").await;
    assert!(output.len() < spill::DEFAULT_LIMIT, "{}", output.len());
    assert!(output.starts_with("first\nxxx") && output.ends_with("xxx\nlast\n<exited with exit code 0>"));
    let (_, path) = output.split_once("The whole is in ").unwrap();
    let path = Path::new(path.split(".]").next().unwrap());
    assert!(path.starts_with(bench.context.session_dir.join("temp")));
    assert_eq!(std::fs::metadata(path).unwrap().len(), 100_000_000 + "first\n\nlast\n".len() as u64);
}

#[tokio::test]
async fn output_of_many_lines_or_invalid_bytes_is_bounded() {
    let bench = Bench::new();
    let output = bash(&bench, "seq 1000000").await;
    assert!(output.starts_with("1\n2\n") && output.ends_with("\n999999\n1000000\n<exited with exit code 0>"));
    assert!(output.len() < spill::DEFAULT_LIMIT);
    for bytes in [100, 40_000, 300_000] {
        let output = bash(&bench, &format!("head -c {bytes} /dev/urandom")).await;
        assert!(output.len() < spill::DEFAULT_LIMIT && !output.contains('\0'), "{}", output.len());
    }
}

#[tokio::test]
async fn progress_is_throttled_and_complete() {
    let mut bench = Bench::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    bench.context.progress = Arc::new(move |text| log.lock().unwrap().push(text.to_owned()));
    let begun = Instant::now();
    bash(&bench, "seq 200000; printf 'pause ü'; sleep 0.3; echo end").await;
    let most = begun.elapsed().as_millis() / 50 + 3;
    let seen = seen.lock().unwrap();
    assert!((seen.len() as u128) <= most, "{} calls, at most {most} expected", seen.len());
    assert!(seen.iter().all(|text| text.len() <= 4096 && !text.contains('\u{fffd}')));
    assert!(
        seen[..seen.len() - 1].iter().any(|text| text.ends_with("pause ü")),
        "output is passed on after the pause"
    );
    assert!(seen.last().unwrap().ends_with("end\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_are_independent() {
    let bench = Arc::new(Bench::new());
    let calls: Vec<_> = (0..20)
        .map(|i| {
            let bench = Arc::clone(&bench);
            tokio::spawn(async move {
                let output =
                    bash(&bench, &format!("echo out{i}; sleep 0.1; echo err{i} >&2; exit {i}")).await;
                assert_eq!(output, format!("out{i}\nerr{i}\n<exited with exit code {i}>"));
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(bench.ledger.running(), []);
}

#[tokio::test]
async fn cancel_ends_one_call_only() {
    let bench = Bench::new();
    let mark = marker();
    let mut other = bench.context.clone();
    other.cancel = tokio_util::sync::CancellationToken::new();
    let cancelled =
        started(&bench.context, json!({"command": "echo ready; sleep 1000", "initial_wait": 60})).await;
    let other_call =
        started(&other, json!({"command": format!("echo ready; : {mark}; sleep 0.5; echo survived")})).await;
    bench.context.cancel.cancel();
    assert_eq!(cancelled.await.unwrap(), interrupted());
    assert_eq!(other_call.await.unwrap().text_result_for_llm, "ready\nsurvived\n<exited with exit code 0>");
}
