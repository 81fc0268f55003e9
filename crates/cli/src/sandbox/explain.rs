//! `baton sandbox explain`: what programs inside find, and why.
#![expect(clippy::disallowed_methods, reason = "runs on the main thread; there is no server to stop")]

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use baton_core::policy::address;
use baton_egress::{Target, Transport};
use baton_protocol::sandbox::{SandboxNetwork, SandboxPolicy};
use baton_sandbox::mounts::{Access, Explanation};
use serde::Serialize;

use super::trial::{Inside, Trial};
use super::walls::{self, Walls};
use crate::args::{Cli, ExplainSandboxArgs};
use crate::{setup, terminal};

/// What programs find at a path or a host.
#[derive(Debug, Serialize)]
struct Answer {
    subject: String,
    #[serde(flatten)]
    found: Found,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Found {
    /// A path, with links resolved.
    Path {
        path: PathBuf,
        #[serde(flatten)]
        explanation: Explanation,
        /// Whether programs outside run what is in it.
        acts: bool,
    },
    Host {
        access: Reach,
        reason: String,
    },
    /// The level is off.
    Outside,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Reach {
    Allowed,
    Asked,
    Refused,
}

/// Explains paths and hosts.
pub(super) fn explain(cli: &Cli, args: &ExplainSandboxArgs) -> anyhow::Result<ExitCode> {
    let trial = Trial::new(cli, &args.rules)?;
    let inside = setup::run(async {
        let placed = trial.place(Arc::new(Walls::new(Vec::new()))).await;
        placed.context("the sandbox cannot be built")
    })?;
    let answers: Vec<Answer> = args
        .subjects
        .iter()
        .map(|subject| {
            let found = match &inside {
                None => Found::Outside,
                Some(_) if !is_path(subject) => host(subject, &trial.choice.policy),
                Some(inside) => path(&trial, inside, subject),
            };
            Answer { subject: subject.clone(), found }
        })
        .collect();
    if args.json {
        let level = trial.choice.policy.level;
        let document = serde_json::json!({ "level": level, "answers": answers });
        terminal::json(&serde_json::to_string_pretty(&document)?);
    } else {
        answers.iter().for_each(|answer| terminal::hanging_line(&answer.to_string(), 2));
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a subject is a path: it looks like one, or there is a file of that name.
fn is_path(subject: &str) -> bool {
    let is_url = subject.contains("://");
    let looks_like_a_host =
        subject.contains(['.', ':']) && !subject.contains('/') && !subject.starts_with(['.', '~']);
    !is_url && (!looks_like_a_host || Path::new(subject).exists())
}

fn path(trial: &Trial, Inside { ready, .. }: &Inside, subject: &str) -> Found {
    let path = resolved(&trial.cwd.join(subject));
    let explanation = ready.explain(&path);
    let relative = path.strip_prefix(ready.cwd());
    let acts =
        explanation.access == Access::Writable && relative.is_ok_and(|relative| trial.judge.acts(relative));
    Found::Path { path, explanation, acts }
}

/// Resolves links in the part of a path that exists.
fn resolved(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (ancestor.canonicalize(), path.strip_prefix(ancestor)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}

fn host(subject: &str, policy: &SandboxPolicy) -> Found {
    let found = |access, reason: String| Found::Host { access, reason };
    if policy.network == SandboxNetwork::None {
        return found(Reach::Refused, "programs reach no host at this level".to_owned());
    }
    let target = match target(subject) {
        Ok(target) => target,
        Err(error) => return found(Reach::Refused, error),
    };
    let origin = target.url();
    let pattern = policy.hosts.iter().find(|pattern| address::is_covered_by(&origin, pattern));
    match pattern {
        Some(pattern) if walls::admit(&origin, &policy.hosts).is_some() => {
            found(Reach::Allowed, format!("by the rule {pattern}"))
        }
        _ if address::is_private(&origin) => {
            let reason = "it is part of this machine or its network, and programs reach it only if it is allowed as such";
            found(Reach::Asked, reason.to_owned())
        }
        _ => found(Reach::Asked, "no rule allows it; a person is asked when a program connects".to_owned()),
    }
}

fn target(subject: &str) -> Result<Target, String> {
    let (transport, authority) = match subject.split_once("://") {
        Some(("http", rest)) => (Transport::PlainHttp, rest),
        Some(("https", rest)) => (Transport::Tunnel, rest),
        Some((scheme, _)) => {
            return Err(format!(
                "the proxy carries http and https only, and no {scheme}; such commands run outside"
            ));
        }
        None => (Transport::Tunnel, subject),
    };
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    let given = Target::parse(transport, authority);
    // The port of the scheme need not be written.
    given
        .or_else(|_| Target::parse(transport, &format!("{authority}:443")))
        .map_err(|error| error.to_string())
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = &self.subject;
        match &self.found {
            Found::Outside => write!(f, "{subject}: the level is off; programs run with your rights"),
            Found::Host { access, reason } => {
                let access = match access {
                    Reach::Allowed => "allowed",
                    Reach::Asked => "asked",
                    Reach::Refused => "refused",
                };
                write!(f, "{subject}: {access}: {reason}")
            }
            Found::Path { explanation, acts, .. } => {
                write!(f, "{subject}: {explanation}")?;
                match acts {
                    true => f.write_str(
                        "; programs outside run what is in it, so a new one is moved away after the command",
                    ),
                    false => Ok(()),
                }
            }
        }
    }
}
