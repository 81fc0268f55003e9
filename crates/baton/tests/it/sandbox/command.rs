//! `baton sandbox` itself.

use serde_json::Value;

use super::arena::{Arena, Level, User, needs_walls};

#[tokio::test]
async fn output_and_exit_code_are_those_of_the_command() {
    needs_walls!();
    for user in User::all() {
        let arena = Arena::new(user);
        for level in [Level::Off, Level::ReadOnly, Level::Workspace] {
            let ran = arena.run(level, "echo out; echo err >&2; exit 42").await;
            let found = (ran.code, ran.stdout.as_str(), ran.stderr.as_str());
            assert_eq!(found, (Some(42), "out\n", "err\n"), "{level:?}");
            assert_eq!(arena.run(level, "kill -TERM $$").await.code, Some(143), "{level:?}");
            let missing = arena.baton(&["sandbox", "--level", "workspace", "--", "no-such-program"]);
            let ran = arena.finish(missing).await;
            assert_eq!(ran.code, Some(127), "{ran:?}");
            assert!(ran.stderr.contains("cannot run no-such-program"), "{ran:?}");
        }
        let left = arena.home().join("baton/sandbox/sessions").read_dir().unwrap().count();
        assert_eq!(left, 0, "private directories are deleted");
    }
}

#[tokio::test]
async fn standard_input_is_passed_on() {
    needs_walls!();
    let arena = Arena::new(User::Ordinary);
    arena.write("text", "from outside\n");
    let mut command = arena.user_command("sh");
    let script = "cat ../text | \"$1\" sandbox --level workspace -- cat";
    command.args(["-c", script, "sh"]).arg(arena.executable());
    assert_eq!(arena.finish(command).await.stdout, "from outside\n");
}

#[tokio::test]
async fn directory_that_is_no_project_is_refused() {
    needs_walls!();
    let arena = Arena::new(User::Ordinary);
    arena.write(".vscode/extensions/file", "");
    for (place, why) in
        [("", "more than one project"), (".vscode/extensions", "programs outside run what is in it")]
    {
        let mut command = arena.baton(&["sandbox", "--level", "workspace", "--", "true"]);
        command.current_dir(arena.home().join(place));
        let ran = arena.finish(command).await;
        assert_eq!(ran.code, Some(125), "{ran:?}");
        assert!(ran.stderr.contains(why), "{ran:?}");
    }
}

#[tokio::test]
async fn paths_and_hosts_are_explained() {
    needs_walls!();
    let arena = Arena::new(User::Ordinary);
    arena.write(".ssh/id", "");
    let explain = ["sandbox", "explain", "--json", "--level", "workspace", "--host", "example.org"];
    let subjects = [
        "file",
        "../outside",
        "../.ssh",
        ".vscode/tasks.json",
        "example.org",
        "example.com",
        "ssh://x",
        "/tmp",
    ];
    let ran = arena.finish(arena.baton(&[&explain[..], &subjects].concat())).await;
    let found: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let access: Vec<&str> = found["answers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| answer["access"].as_str().unwrap())
        .collect();
    let expected = ["writable", "read-only", "hidden", "writable", "allowed", "asked", "refused", "private"];
    assert_eq!(access, expected, "{found:#}");
    assert_eq!(
        (&found["answers"][0]["acts"], &found["answers"][3]["acts"]),
        (&Value::Bool(false), &Value::Bool(true))
    );
    let words = arena.finish(arena.baton(&["sandbox", "explain", "../.ssh", "example.org"])).await.stdout;
    assert!(words.contains("../.ssh: hidden: programs find an empty directory"), "{words}");
    assert!(words.contains("example.org: asked"), "{words}");
}

#[tokio::test]
async fn doctor_says_what_can_be_enforced() {
    needs_walls!();
    let arena = Arena::new(User::Ordinary);
    let ran = arena.finish(arena.baton(&["doctor", "--json"])).await;
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    let finding = found["findings"].as_array().unwrap().iter().find(|one| one["what"] == "sandbox").unwrap();
    assert_eq!(finding["state"], "good", "{finding}");
    let detail = finding["detail"].as_str().unwrap();
    assert!(detail.contains("level workspace by default") && detail.contains("bubblewrap "), "{detail}");
}

/// Runs the program where there is no bubblewrap, which only root can arrange.
async fn without_bwrap(arena: &Arena, arguments: &[&str]) -> super::arena::Ran {
    let script = "for b in /usr/bin/bwrap /bin/bwrap; do mount --bind /dev/null $b; done; exec \"$@\"";
    let mut command = arena.user_command("unshare");
    command.args(["--mount", "sh", "-ec", script, "sh"]).arg(arena.executable()).args(arguments);
    arena.finish(command).await
}

#[tokio::test]
async fn without_bubblewrap_there_is_read_only_without_a_network() {
    needs_walls!();
    if !rustix::process::geteuid().is_root() {
        return baton_testkit::cannot_run!("only root can hide bubblewrap");
    }
    let arena = Arena::new(User::Root);
    arena.write("secret", "");
    let refused = without_bwrap(&arena, &["sandbox", "--level", "workspace", "--", "true"]).await;
    assert_eq!(refused.code, Some(125), "{refused:?}");
    assert!(refused.stderr.contains("install the package \"bubblewrap\""), "{refused:?}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "echo x > /tmp/file; echo x > here; echo x > $HOME/outside/x; cat $HOME/secret; ls $HOME
         kill -0 {pid} && echo signal; cat /proc/{pid}/environ && echo environment
         /usr/bin/python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))' && echo network
         echo $TMPDIR; echo x > $TMPDIR/file && echo temporary",
        pid = std::process::id()
    );
    let ran = without_bwrap(&arena, &["sandbox", "--level", "read-only", "--", "sh", "-c", &script]).await;
    assert!(ran.stdout.ends_with("temporary\n") && ran.stdout.lines().count() == 2, "{ran:?}");
    assert!(!arena.work().join("here").exists() && !arena.home().join("outside/x").exists());
    let doctor = without_bwrap(&arena, &["doctor"]).await.stdout;
    assert!(doctor.contains("only the level read-only is possible"), "{doctor}");
}
