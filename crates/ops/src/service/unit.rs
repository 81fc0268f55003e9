//! Unit files of systemd.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Whose service it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceScope {
    /// The user's own: runs as the user, with the user's files.
    User,
    /// The system's: runs as a user of its own, locked into one directory.
    System,
}

/// A server to run as a service.
#[derive(Debug, Clone)]
pub struct Unit {
    /// Whose service it is.
    pub scope: ServiceScope,
    /// The program.
    pub program: PathBuf,
    /// Home of the server; none for the default: the user's own, or `/var/lib/baton` of the system.
    pub home: Option<PathBuf>,
    /// Configuration file; none for the default.
    pub config: Option<PathBuf>,
    /// Further options of all commands that the service needs, such as `--store`.
    pub options: Vec<(&'static str, String)>,
    /// Variables that the service needs. They must hold no secret: every user can read a unit.
    pub environment: Vec<(&'static str, String)>,
    /// Arguments of `baton serve`.
    pub arguments: Vec<String>,
    /// User that a service of the system runs as.
    pub user: String,
    /// Directory in which sessions work; a service of the system can write nowhere else.
    pub directory: Option<PathBuf>,
}

/// Why there is no unit file for these arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// A value cannot be written in a unit file.
    #[error("{0:?} cannot be part of a service: it has a line break or another control character")]
    Control(String),
    /// A value would continue on the next line of the unit file.
    #[error("{0:?} cannot be part of a service: it ends in a backslash")]
    Continued(String),
    /// A path of a service of the system is in a home directory.
    #[error(
        "{0:?} is in a home directory, which a service of the system cannot see; use a path such as /usr/local/bin/baton, \
         /srv/projects or /var/lib/baton, or install the service without --system"
    )]
    InHome(PathBuf),
    /// A path is relative.
    #[error("{0:?} must be an absolute path: a service has no current directory")]
    Relative(PathBuf),
}

/// Rules for services of the system. Left out on purpose: `MemoryDenyWriteExecute` and `RestrictNamespaces`, because
/// engines and commands of sessions compile at run time and use sandboxes of their own.
const HARDENING: &str = "\
# Sessions run commands. These limits hold for all of them; widen ReadWritePaths for further projects.
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
RemoveIPC=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp
SystemCallErrorNumber=EPERM
";

/// Rules for services of a user, whose manager has no privileges: limits that need none. Left out on purpose: all that needs
/// a mount namespace, which a user may not have, and a filter of system calls, because debuggers and sandboxes need more.
const USER_HARDENING: &str = "\
# Sessions run commands. These limits hold for all of them; sudo does not work in them.
NoNewPrivileges=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
";

/// Variable that names the home.
const HOME: &str = "BATON_HOME";
/// Variable that names the format of log entries.
const LOG_FORMAT: &str = "BATON_LOG_FORMAT";

/// Directories that `ProtectHome=yes` hides.
const HIDDEN: [&str; 3] = ["/home", "/root", "/run/user"];

impl Unit {
    /// Renders the unit file.
    ///
    /// # Errors
    /// When a value cannot be written in one.
    pub fn render(&self) -> Result<String, UnitError> {
        self.check_reach()?;
        let mut text = String::new();
        let mut line = |line: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line}");
        };
        line("[Unit]");
        line("Description=Baton agent session server");
        if self.scope == ServiceScope::System {
            line("Wants=network-online.target");
            line("After=network-online.target");
        }
        line("");
        line("[Service]");
        line("# The server reports when it listens.");
        line("Type=notify");
        line(&format!("ExecStart={}", self.command()?));
        line("Restart=on-failure");
        line("RestartSec=2");
        line("# The server ends its commands itself, within 15 s; nothing acknowledged is lost.");
        line("KillMode=mixed");
        line("TimeoutStopSec=30");
        line("LimitNOFILE=65536");
        let is_set = |name: &str| self.environment.iter().any(|(set, _)| *set == name);
        if !is_set(LOG_FORMAT) {
            line("Environment=BATON_LOG_FORMAT=json");
        }
        for (name, value) in &self.environment {
            line(&format!("Environment={}", quoted(&format!("{name}={value}"))?));
        }
        line("# Keys of models, as NAME=value lines in a file that only its owner can read.");
        match self.scope {
            ServiceScope::User => line("EnvironmentFile=-%E/baton/environment"),
            ServiceScope::System => {
                line("EnvironmentFile=-/etc/baton/environment");
                line(&format!("User={}", unquoted(&self.user)?));
                line("StateDirectory=baton");
                line("StateDirectoryMode=0700");
                line("RuntimeDirectory=baton");
                line(
                    "# For the files that sessions create in projects; the server's own are private anyway.",
                );
                line("UMask=0027");
                if self.home().is_none() {
                    line("Environment=BATON_HOME=/var/lib/baton");
                }
            }
        }
        if let Some(directory) = &self.directory {
            line(&format!("WorkingDirectory={}", unquoted(&absolute(directory)?)?.replace('%', "%%")));
        }
        if self.scope == ServiceScope::System {
            let writable = [self.directory.clone(), self.home()];
            for path in writable.iter().flatten() {
                line(&format!("ReadWritePaths={}", quoted(&absolute(path)?)?));
            }
        }
        line("");
        let hardening = match self.scope {
            ServiceScope::User => USER_HARDENING,
            ServiceScope::System => HARDENING,
        };
        hardening.lines().for_each(&mut line);
        line("");
        line("[Install]");
        line(match self.scope {
            ServiceScope::User => "WantedBy=default.target",
            ServiceScope::System => "WantedBy=multi-user.target",
        });
        Ok(text)
    }

    /// Returns the home, if it is not the default.
    fn home(&self) -> Option<PathBuf> {
        let variable = self.environment.iter().find(|(name, _)| *name == HOME);
        self.home.clone().or_else(|| variable.map(|(_, value)| PathBuf::from(value)))
    }

    /// Refuses paths that the hardening hides: systemd would start the service, and fail with a number.
    fn check_reach(&self) -> Result<(), UnitError> {
        if self.scope == ServiceScope::User {
            return Ok(());
        }
        let paths = [Some(self.program.clone()), self.home(), self.config.clone(), self.directory.clone()];
        let is_hidden = |path: &PathBuf| HIDDEN.iter().any(|home| path.starts_with(home));
        match paths.into_iter().flatten().find(is_hidden) {
            Some(path) => Err(UnitError::InHome(path)),
            None => Ok(()),
        }
    }

    /// Returns the command line, quoted for systemd.
    fn command(&self) -> Result<String, UnitError> {
        let mut words = vec![absolute(&self.program)?, "serve".to_owned()];
        for (flag, path) in [("--home", &self.home), ("--config", &self.config)] {
            if let Some(path) = path {
                words.extend([flag.to_owned(), absolute(path)?]);
            }
        }
        for (option, value) in &self.options {
            words.extend([(*option).to_owned(), value.clone()]);
        }
        words.extend(self.arguments.iter().cloned());
        // A dollar sign is a variable in arguments, and itself in the path of the program.
        let word = |(index, word): (usize, &String)| {
            let dollar = if index == 0 { "$" } else { "$$" };
            Ok(quoted(word)?.replace('$', dollar))
        };
        let words: Result<Vec<String>, UnitError> = words.iter().enumerate().map(word).collect();
        Ok(words?.join(" "))
    }
}

fn absolute(path: &Path) -> Result<String, UnitError> {
    if path.is_relative() {
        return Err(UnitError::Relative(path.to_owned()));
    }
    path.to_str().map(str::to_owned).ok_or_else(|| UnitError::Control(path.to_string_lossy().into_owned()))
}

fn plain(text: &str) -> Result<&str, UnitError> {
    if text.chars().any(char::is_control) { Err(UnitError::Control(text.to_owned())) } else { Ok(text) }
}

/// Returns a value that the unit file has without quotes, to the end of its line.
fn unquoted(text: &str) -> Result<&str, UnitError> {
    if text.ends_with('\\') { Err(UnitError::Continued(text.to_owned())) } else { plain(text) }
}

/// Quotes a word, if it needs it.
fn quoted(text: &str) -> Result<String, UnitError> {
    let text = plain(text)?.replace('%', "%%");
    let is_simple = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%,+".contains(c);
    if !text.is_empty() && text.chars().all(is_simple) {
        return Ok(text);
    }
    Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(scope: ServiceScope) -> Unit {
        Unit {
            scope,
            program: "/usr/bin/baton".into(),
            home: None,
            config: None,
            options: Vec::new(),
            environment: Vec::new(),
            arguments: vec!["--http".into(), "127.0.0.1:8421".into()],
            user: "baton".into(),
            directory: Some("/srv/projects".into()),
        }
    }

    #[test]
    fn unit_of_the_system_is_locked_into_its_directory() {
        let text = unit(ServiceScope::System).render().unwrap();
        for line in [
            "Type=notify",
            "ExecStart=/usr/bin/baton serve --http 127.0.0.1:8421",
            "User=baton",
            "ProtectSystem=strict",
            "ReadWritePaths=/srv/projects",
            "Environment=BATON_HOME=/var/lib/baton",
            "WantedBy=multi-user.target",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn unit_of_a_user_runs_with_the_users_files() {
        let text = unit(ServiceScope::User).render().unwrap();
        assert!(text.contains("WantedBy=default.target") && text.contains("WorkingDirectory=/srv/projects"));
        assert!(!text.contains("ProtectSystem") && !text.contains("User="), "{text}");
        assert!(text.lines().any(|line| line == "NoNewPrivileges=yes"), "{text}");
        assert!(
            !text.contains("UMask"),
            "files of the user's projects have the modes that the user wants: {text}"
        );
    }

    #[test]
    fn options_and_variables_are_part_of_the_unit() {
        let unit = Unit {
            options: vec![("--store", "postgres://baton@db/baton".into()), ("--place", "rack 1".into())],
            environment: vec![("BATON_HOME", "/srv/50% of it".into()), ("BATON_LOG_FORMAT", "text".into())],
            ..unit(ServiceScope::System)
        };
        let text = unit.render().unwrap();
        for line in [
            r#"ExecStart=/usr/bin/baton serve --store postgres://baton@db/baton --place "rack 1" --http 127.0.0.1:8421"#,
            r#"Environment="BATON_HOME=/srv/50%% of it""#,
            r#"ReadWritePaths="/srv/50%% of it""#,
            "Environment=BATON_LOG_FORMAT=text",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("BATON_HOME=/var/lib/baton") && !text.contains("=json"), "{text}");
        let hidden = Unit { environment: vec![("BATON_HOME", "/root/x".into())], ..unit };
        assert!(matches!(hidden.render(), Err(UnitError::InHome(_))));
    }

    #[test]
    fn systemd_accepts_the_units() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("baton.service");
        for (scope, flag) in [(ServiceScope::User, "--user"), (ServiceScope::System, "--system")] {
            let unit = Unit {
                program: "/bin/sh".into(),
                user: "root".into(),
                directory: Some("/tmp".into()),
                ..unit(scope)
            };
            std::fs::write(&path, unit.render().unwrap()).unwrap();
            let mut verify = std::process::Command::new("systemd-analyze");
            verify.args(["verify", "--man=no", flag]).arg(&path).env("XDG_RUNTIME_DIR", dir.path());
            let Ok(output) = verify.output() else {
                return baton_testkit::cannot_run!("systemd-analyze is not installed");
            };
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && !said.contains("baton.service"), "{said}");
        }
    }

    #[test]
    fn service_of_the_system_needs_paths_outside_of_homes() {
        let system = unit(ServiceScope::System);
        let hidden = || Some(PathBuf::from("/home/ada/x"));
        for unit in [
            Unit { program: "/root/.cargo/bin/baton".into(), ..system.clone() },
            Unit { directory: hidden(), ..system.clone() },
            Unit { home: hidden(), ..system.clone() },
            Unit { config: hidden(), ..system.clone() },
        ] {
            let error = unit.render().unwrap_err();
            assert!(matches!(&error, UnitError::InHome(_)), "{error}");
            assert!(Unit { scope: ServiceScope::User, ..unit }.render().is_ok());
        }
        assert!(Unit { directory: Some("/homes/x".into()), ..system }.render().is_ok());
    }

    #[test]
    fn dollar_in_the_programs_path_is_itself() {
        let unit = Unit { program: "/opt/a $x/baton".into(), ..unit(ServiceScope::User) };
        assert!(unit.render().unwrap().contains("ExecStart=\"/opt/a $x/baton\" serve"));
    }

    #[test]
    fn values_cannot_become_other_words_settings_or_variables() {
        let mut unit = unit(ServiceScope::User);
        unit.arguments = vec!["a b".into(), "$HOME".into(), "100%".into(), "q\"\\".into(), "".into()];
        let text = unit.render().unwrap();
        let line = r#"ExecStart=/usr/bin/baton serve "a b" "$$HOME" 100%% "q\"\\" """#;
        assert!(text.lines().any(|found| found == line), "{text}");
        unit.arguments = vec!["x\nExecStartPost=/bin/sh".into()];
        assert!(matches!(unit.render(), Err(UnitError::Control(_))));
        unit.arguments.clear();
        unit.directory = Some("/srv/x\\".into());
        assert!(matches!(unit.render(), Err(UnitError::Continued(_))), "would swallow the next setting");
        unit.directory = None;
        unit.home = Some("/srv/x\\".into());
        assert!(unit.render().unwrap().contains(r#"--home "/srv/x\\""#));
        unit.home = Some("relative".into());
        assert!(matches!(unit.render(), Err(UnitError::Relative(_))));
    }
}
